//! Compares the fixtures with a fresh run.

use crate::record::generate;
use regex::Regex;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Prints every file that drifted; true if none did.
pub async fn check(folder: &Path) -> io::Result<bool> {
    let fresh = TemporaryFolder::new()?;
    generate(&fresh.0).await?;
    let mut clean = true;
    let mut expected = Normaliser::new();
    let mut actual = Normaliser::new();
    let mut scenario = String::new();
    for file in file_names(folder)?.union(&file_names(&fresh.0)?) {
        // Names of ids hold across the files of a scenario, so that a broken link is seen.
        let owner = file.split('.').next().unwrap_or_default();
        if owner != scenario {
            scenario = owner.to_string();
            expected.names.clear();
            actual.names.clear();
        }
        let committed = expected.normalise(&read(&folder.join(file))?);
        let regenerated = actual.normalise(&read(&fresh.0.join(file))?);
        if let Some(difference) = first_difference(&committed, &regenerated) {
            println!("drift in {file}, {difference}");
            clean = false;
        }
    }
    Ok(clean)
}

/// A file that only one side has counts as empty.
fn read(file: &Path) -> io::Result<String> {
    match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        result => result,
    }
}

fn file_names(folder: &Path) -> io::Result<BTreeSet<String>> {
    fs::read_dir(folder)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}

/// Takes out what differs between two runs of the same code.
pub struct Normaliser {
    uuid: Regex,
    time: Regex,
    milliseconds: Regex,
    names: HashMap<String, String>,
}

impl Normaliser {
    pub fn new() -> Self {
        let regex = |pattern| Regex::new(pattern).expect("constant pattern");
        Self {
            uuid: regex(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"),
            time: regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"),
            milliseconds: regex(r"\b1\d{12}\b"),
            names: HashMap::new(),
        }
    }

    /// Random ids become numbers in order of appearance; times are only known to be there.
    pub fn normalise(&mut self, content: &str) -> String {
        let names = &mut self.names;
        let content = self.uuid.replace_all(content, |found: &regex::Captures| {
            let next = format!("<id {}>", names.len() + 1);
            names.entry(found[0].to_string()).or_insert(next).clone()
        });
        let content = self.time.replace_all(&content, "<time$2>");
        self.milliseconds.replace_all(&content, "<ms>").into_owned()
    }
}

fn first_difference(committed: &str, regenerated: &str) -> Option<String> {
    let (mut left, mut right) = (committed.lines(), regenerated.lines());
    for number in 1.. {
        match (left.next(), right.next()) {
            (None, None) => break,
            (left, right) if left == right => {}
            (left, right) => {
                return Some(format!(
                    "line {number}:\n  committed:   {}\n  regenerated: {}",
                    left.unwrap_or("(no line)"),
                    right.unwrap_or("(no line)")
                ))
            }
        }
    }
    None
}

struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new() -> io::Result<Self> {
        let name = format!("phi-interop-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "11111111-2222-4333-8444-555555555555";
    const SECOND: &str = "99999999-2222-4333-8444-555555555555";

    #[test]
    fn random_ids_keep_their_identity() {
        let mut normaliser = Normaliser::new();
        let content = format!("{FIRST}.harbour.1 {SECOND} {FIRST}");
        assert_eq!(
            normaliser.normalise(&content),
            "<id 1>.harbour.1 <id 2> <id 1>"
        );
        assert_eq!(normaliser.normalise(SECOND), "<id 2>", "across files");
    }

    #[test]
    fn times_go_but_their_form_stays() {
        let mut normaliser = Normaliser::new();
        let content = r#"{"at":"2026-05-25T10:00:00.123Z","tag":"2026-05-25T10:00:00+00:00","timestamp":1779703200123,"input":1250}"#;
        let expected = r#"{"at":"<timeZ>","tag":"<time+00:00>","timestamp":<ms>,"input":1250}"#;
        assert_eq!(normaliser.normalise(content), expected);
    }

    #[test]
    fn the_first_difference_is_reported() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        let changed = first_difference("a\nb\n", "a\nc\n").unwrap();
        assert!(changed.starts_with("line 2:"), "{changed}");
        let missing = first_difference("a\nb\n", "a\n").unwrap();
        assert!(missing.contains("(no line)"), "{missing}");
    }
}
