//! What the tests of the tree share: where it is, its files, hashes of them.

pub mod contract;

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The top of the tree.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("the crate lies two folders below the top")
        .to_path_buf()
}

/// Regular files below a folder, by their paths from the top, with `/`. Links
/// and folders named `target` are left out.
///
/// # Panics
/// If the folder cannot be read.
#[must_use]
pub fn files(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    let path = root().join(folder);
    let entries = fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for entry in entries {
        let entry = entry.expect("an entry of the folder");
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        let kind = entry.file_type().expect("the kind of the entry");
        let path = format!("{folder}/{name}");
        if kind.is_dir() && name != "target" {
            found.extend(files(&path));
        } else if kind.is_file() {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A file's bytes.
///
/// # Panics
/// If it cannot be read.
#[must_use]
pub fn read(path: &str) -> Vec<u8> {
    fs::read(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A file's text.
///
/// # Panics
/// If it cannot be read.
#[must_use]
pub fn text(path: &str) -> String {
    String::from_utf8(read(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// SHA-256 in hex.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
