//! Runs scenarios, writes their files, compares them with those that are there.

use crate::scenarios::{self, Scenario};
use crate::stage::Stage;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// Name and content of each file.
type Files = BTreeMap<String, String>;

pub fn generate(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, content) in play_all() {
        fs::write(folder.join(name), content)?;
    }
    Ok(())
}

/// Prints every file that drifted; true if none did. Nothing is ignored: a run is repeatable to the byte.
pub fn check(folder: &Path) -> io::Result<bool> {
    let fresh = play_all();
    let mut committed = Files::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        committed.insert(name, fs::read_to_string(path)?);
    }
    let mut names: Vec<&String> = committed.keys().chain(fresh.keys()).collect();
    names.sort();
    names.dedup();
    let mut clean = true;
    for name in names {
        // A file that only one side has counts as empty.
        let content = |files: &Files| files.get(name).cloned().unwrap_or_default();
        if let Some(difference) = first_difference(&content(&committed), &content(&fresh)) {
            println!("drift in {name}, {difference}");
            clean = false;
        }
    }
    Ok(clean)
}

fn play_all() -> Files {
    let mut files = Files::new();
    for scenario in scenarios::all() {
        let name = scenario.name;
        for (kind, content) in play(scenario) {
            files.insert(format!("{name}.{kind}"), content);
        }
    }
    files
}

/// Time is paused: it jumps to the next timer when nobody has anything else to do.
fn play(scenario: Scenario) -> Vec<(String, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let stage = Stage::new(scenario.name);
        (scenario.play)(stage.clone()).await;
        stage.files()
    })
}

fn first_difference(committed: &str, regenerated: &str) -> Option<String> {
    let (mut left, mut right) = (committed.split('\n'), regenerated.split('\n'));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_reported() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert!(first_difference("a\r\n", "a\n").is_some());
        assert!(first_difference("a", "a\n").is_some());
        let changed = first_difference("a\nb\n", "a\nc\n").unwrap();
        assert!(changed.starts_with("line 2:"), "{changed}");
        let missing = first_difference("a\nb", "a").unwrap();
        assert!(missing.contains("(no line)"), "{missing}");
    }

    #[test]
    fn a_second_run_writes_the_same() {
        assert!(play_all() == play_all());
    }
}
