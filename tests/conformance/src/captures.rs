//! The directory of captures, and of which form each file is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Overrides the directory.
pub const DIRECTORY_VARIABLE: &str = "AEDILE_FIXTURES";

/// One capture: a file, with what states its outcome where that is another.
#[derive(Debug)]
pub struct Capture {
    /// The file's name without `.zst`.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub form: Form,
}

/// What a capture is.
#[derive(Debug)]
pub enum Form {
    /// Lines with `batch_hex` and `results`, several sequences in one file.
    ApplySequence,
    /// Lines with `hex` and `res`, one sequence.
    FuzzSequence,
    /// Lines with commands and their encodings, or payloads that are corrupt.
    Codec,
    /// A SQLite database, and the state that it gives.
    Sqlite {
        /// The stated state.
        stated: Value,
    },
    /// A PostgreSQL dump, and the state that it gives.
    Postgres {
        /// The stated state.
        stated: Value,
    },
    /// A tar archive of the object directory beside a database.
    Objects {
        /// The database.
        database: PathBuf,
    },
    /// None of these.
    Unknown {
        /// What is missing.
        why: String,
    },
}

impl Capture {
    /// The file's bytes, decompressed if need be.
    pub fn bytes(&self) -> Vec<u8> {
        read(&self.path)
    }

    /// The file's text.
    pub fn text(&self) -> String {
        text(&self.path)
    }
}

/// The directory that is to be checked, and whether it is the tree's own.
pub fn directory() -> (PathBuf, bool) {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package
        .ancestors()
        .nth(2)
        .expect("the package is two folders deep");
    match std::env::var_os(DIRECTORY_VARIABLE) {
        // Tests run in their package's directory, make in the tree's root.
        Some(named) => {
            let from_root = root.join(&named);
            (
                if from_root.is_dir() {
                    from_root
                } else {
                    named.into()
                },
                false,
            )
        }
        None => (root.join("tests/fixtures"), true),
    }
}

/// The bytes of a file, decompressed if its name ends in `.zst`.
pub fn read(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if path.extension().is_some_and(|extension| extension == "zst") {
        zstd::decode_all(bytes.as_slice())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    } else {
        bytes
    }
}

fn text(path: &Path) -> String {
    String::from_utf8(read(path)).unwrap_or_else(|_| panic!("{} is not UTF-8", path.display()))
}

/// Every capture in a directory. Notes (`.md`) are none; a `.json` file
/// belongs to the database or dump of the same name.
pub fn captures(directory: &Path) -> Vec<Capture> {
    let files = files(directory);
    let mut captures = Vec::new();
    for (name, path) in &files {
        let form = match name.rsplit_once('.') {
            Some((_, "md")) => continue,
            Some((_, "jsonl")) => lines(&text(path)),
            Some((stem, "db")) => match stated(&files, stem) {
                Ok(stated) => Form::Sqlite { stated },
                Err(why) => Form::Unknown { why },
            },
            Some((stem, "sql")) => match stated(&files, stem) {
                Ok(stated) => Form::Postgres { stated },
                Err(why) => Form::Unknown { why },
            },
            Some((stem, "tar")) => objects(&files, stem),
            Some((stem, "json"))
                if files.contains_key(&format!("{stem}.db"))
                    || files.contains_key(&format!("{stem}.sql")) =>
            {
                continue;
            }
            _ => Form::Unknown {
                why: "neither lines, nor a database, nor of one".to_owned(),
            },
        };
        captures.push(Capture {
            name: name.clone(),
            path: path.clone(),
            form,
        });
    }
    captures
}

fn files(directory: &Path) -> BTreeMap<String, PathBuf> {
    let entries = std::fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries
        .map(|entry| entry.expect("a directory can be listed").path())
        .filter(|path| path.is_file())
        .map(|path| {
            let name = path
                .file_name()
                .expect("a file has a name")
                .to_string_lossy();
            (
                name.strip_suffix(".zst").unwrap_or(&name).to_owned(),
                path.clone(),
            )
        })
        .collect()
}

fn stated(files: &BTreeMap<String, PathBuf>, stem: &str) -> Result<Value, String> {
    let name = format!("{stem}.json");
    let path = files
        .get(&name)
        .ok_or(format!("{name}, which states the outcome, is missing"))?;
    serde_json::from_slice(&read(path)).map_err(|error| format!("{name} is no JSON: {error}"))
}

fn objects(files: &BTreeMap<String, PathBuf>, stem: &str) -> Form {
    let database = stem
        .strip_suffix("-objects")
        .and_then(|of| files.get(&format!("{of}.db")));
    match database {
        Some(database) => Form::Objects {
            database: database.clone(),
        },
        None => Form::Unknown {
            why: "an archive, but not `<database>-objects.tar`".to_owned(),
        },
    }
}

/// The form of a file of JSON lines, from its first line.
fn lines(text: &str) -> Form {
    let first = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("");
    let Ok(Value::Object(first)) = serde_json::from_str(first) else {
        return Form::Unknown {
            why: "its first line is no JSON object".to_owned(),
        };
    };
    let has = |key: &str| first.contains_key(key);
    if has("batch_hex") && has("results") {
        Form::ApplySequence
    } else if (has("hex") && has("res")) || has("format") {
        Form::FuzzSequence
    } else if has("command") || has("commands") || has("corrupt") {
        Form::Codec
    } else {
        let keys: Vec<&String> = first.keys().collect();
        Form::Unknown {
            why: format!("lines with the keys {keys:?}"),
        }
    }
}
