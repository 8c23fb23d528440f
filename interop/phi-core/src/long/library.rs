//! Texts for the long sessions: documentation and sources of crates that this program is built from.

use serde_json::Value;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One file of a crate.
struct Page {
    /// Crate and path in it, such as `tokio/src/fs/file.rs`.
    path: String,
    text: String,
}

/// A piece of a page.
pub struct Excerpt {
    pub path: String,
    /// The number of its first line.
    pub line: usize,
    pub text: String,
}

/// All texts, in the same order on every machine.
pub struct Library {
    prose: Arc<Vec<Page>>,
    code: Arc<Vec<Page>>,
}

impl Library {
    /// Finds the crates' folders in `metadata`, a file with what `cargo metadata` printed.
    pub fn open(metadata: &Path) -> io::Result<Self> {
        let metadata: Value = serde_json::from_slice(&fs::read(metadata)?)?;
        let phi_core = folder_of(&metadata, "phi-core")?;
        let tokio = folder_of(&metadata, "tokio")?;
        let mut code = pages("phi-core", &phi_core, "src", "rs")?;
        code.extend(pages("tokio", &tokio, "src", "rs")?);
        Ok(Self {
            prose: pages("phi-core", &phi_core, "docs", "md")?.into(),
            code: code.into(),
        })
    }

    pub fn prose(&self) -> Reader {
        Reader::new(self.prose.clone())
    }

    pub fn code(&self) -> Reader {
        Reader::new(self.code.clone())
    }
}

/// The folder of a crate; of several releases the newest one's, which cargo names last.
fn folder_of(metadata: &Value, name: &str) -> io::Result<PathBuf> {
    let packages = metadata["packages"].as_array();
    packages
        .into_iter()
        .flatten()
        .rfind(|package| package["name"] == name)
        .and_then(|package| package["manifest_path"].as_str())
        .and_then(|manifest| Some(Path::new(manifest).parent()?.to_path_buf()))
        .ok_or_else(|| io::Error::other(format!("cargo metadata names no {name}")))
}

/// Every file below `root/folder` with this ending, by path.
fn pages(package: &str, root: &Path, folder: &str, ending: &str) -> io::Result<Vec<Page>> {
    let mut found = vec![];
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == ending) {
                let inside = path.strip_prefix(root).expect("it is below root");
                found.push(Page {
                    path: format!("{package}/{}", inside.to_string_lossy()),
                    text: fs::read_to_string(&path)?,
                });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// Reads from front to back, nothing twice.
pub struct Reader {
    pages: Arc<Vec<Page>>,
    page: usize,
    at: usize,
}

impl Reader {
    fn new(pages: Arc<Vec<Page>>) -> Self {
        Self {
            pages,
            page: 0,
            at: 0,
        }
    }

    /// The next piece of one page, of at most `bytes` and not much less. What is left of a page and
    /// too short is skipped. Panics at the end of the library.
    pub fn next(&mut self, bytes: usize) -> Excerpt {
        loop {
            let page = self.pages.get(self.page).expect("the library is read out");
            let rest = &page.text[self.at..];
            if rest.trim_start().len() < bytes {
                self.page += 1;
                self.at = 0;
                continue;
            }
            let blank = rest.len() - rest.trim_start().len();
            let text = &rest[blank..];
            let text = &text[..end_of_piece(text, bytes)];
            let start = self.at + blank;
            self.at = start + text.len();
            return Excerpt {
                path: page.path.clone(),
                line: 1 + page.text[..start].matches('\n').count(),
                text: text.trim_end().to_string(),
            };
        }
    }
}

/// Where to cut: after a line if one ends in the last half, else after a word.
fn end_of_piece(text: &str, bytes: usize) -> usize {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let piece = &text[..end];
    match (piece.rfind('\n'), piece.rfind(' ')) {
        (Some(line), _) if line > end / 2 => line + 1,
        (_, Some(word)) if word > end / 2 => word + 1,
        _ => end,
    }
}
