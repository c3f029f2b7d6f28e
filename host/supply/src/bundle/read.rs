//! Reading a bundle: everything is checked before anything is handed on.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use tar::{Archive, EntryType};

use super::{Bundle, INDEX, Index, LONGEST_TEXT, MODULE, RECORD, SIGNATURE, VERSION};
use crate::{SupplyError, check_signature_text, sha256_hex};

/// Why a bundle is refused, before its path is known.
pub(super) enum Fault {
    Io(io::Error),
    Version(u64),
    Bad(String),
    Other(SupplyError),
}

impl Bundle {
    /// Read one with a module of at most `largest` bytes.
    ///
    /// # Errors
    /// If the file cannot be read, is no bundle, is of another version, holds
    /// anything besides a bundle's entries, or anything in it is not what its
    /// index names.
    pub fn read(path: &Path, largest: u64) -> Result<Self, SupplyError> {
        let failed = |source| SupplyError::File {
            path: path.to_owned(),
            action: "read",
            source,
        };
        let file = File::open(path).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(SupplyError::BadBundle {
                path: path.to_owned(),
                reason: "it is not a regular file".to_owned(),
            });
        }
        Self::decode(BufReader::new(file), largest).map_err(|fault| match fault {
            Fault::Io(error) => failed(error),
            Fault::Other(error) => error,
            Fault::Version(found) => SupplyError::BundleVersion {
                path: path.to_owned(),
                found,
                known: VERSION,
            },
            Fault::Bad(reason) => SupplyError::BadBundle {
                path: path.to_owned(),
                reason,
            },
        })
    }

    pub(super) fn decode(from: impl Read, largest: u64) -> Result<Self, Fault> {
        let mut files = entries(from, largest)?;
        let record = files
            .remove(RECORD)
            .ok_or_else(|| bad(format!("it has no {RECORD}")))?;
        let record: serde_json::Value = serde_json::from_slice(&record)
            .map_err(|error| bad(format!("{RECORD} is no JSON: {error}")))?;
        if !record.is_object() {
            return Err(bad(format!("{RECORD} is no JSON object")));
        }
        let module = files
            .remove(MODULE)
            .ok_or_else(|| bad(format!("it has no {MODULE}")))?;
        let signature = match files.remove(SIGNATURE) {
            None => None,
            Some(bytes) => {
                let text = String::from_utf8(bytes)
                    .map_err(|_| bad(format!("{SIGNATURE} is not UTF-8")))?;
                check_signature_text(&text, SIGNATURE).map_err(Fault::Other)?;
                Some(text)
            }
        };
        Ok(Self {
            record,
            module,
            signature,
        })
    }
}

/// The entries after the index, each as the index names it.
fn entries(from: impl Read, largest: u64) -> Result<BTreeMap<String, Vec<u8>>, Fault> {
    // Not even a lying index makes more than this be read.
    let most = largest.saturating_add(4 * LONGEST_TEXT);
    let mut archive = Archive::new(from.take(most));
    let mut index: Option<Index> = None;
    let mut files = BTreeMap::new();
    for entry in archive.entries().map_err(Fault::Io)? {
        let mut entry = entry.map_err(not_a_tar)?;
        let name = entry
            .path()
            .ok()
            .and_then(|path| path.to_str().map(str::to_owned))
            .ok_or_else(|| bad("the name of an entry is not UTF-8"))?;
        if entry.header().entry_type() != EntryType::Regular {
            return Err(bad(format!(
                "`{}` is not a plain file",
                name.escape_debug()
            )));
        }
        let limit = match name.as_str() {
            MODULE => largest,
            INDEX | RECORD | SIGNATURE => LONGEST_TEXT,
            _ => {
                return Err(bad(format!(
                    "`{}` does not belong into a bundle",
                    name.escape_debug()
                )));
            }
        };
        let size = entry.size();
        if size > limit {
            return Err(Fault::Other(SupplyError::TooLarge {
                place: format!("{name} in the bundle"),
                size,
                limit,
            }));
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(not_a_tar)?;
        if bytes.len() as u64 != size {
            return Err(bad(format!("it ends in the middle of {name}")));
        }
        match &index {
            None if name == INDEX => index = Some(parse(&bytes)?),
            None => return Err(bad(format!("it does not begin with {INDEX}"))),
            Some(index) => {
                check(index, &name, &bytes)?;
                if files.insert(name.clone(), bytes).is_some() {
                    return Err(bad(format!("{name} is in it twice")));
                }
            }
        }
    }
    let index = index.ok_or_else(|| bad(format!("it has no {INDEX}")))?;
    match index.files.keys().find(|name| !files.contains_key(*name)) {
        Some(name) => Err(bad(format!(
            "`{}`, which its index names, is not in it",
            name.escape_debug()
        ))),
        None => Ok(files),
    }
}

fn parse(bytes: &[u8]) -> Result<Index, Fault> {
    let not_one = |error: serde_json::Error| bad(format!("{INDEX} is not one: {error}"));
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(not_one)?;
    match value.get("v").and_then(serde_json::Value::as_u64) {
        Some(VERSION) => serde_json::from_value(value).map_err(not_one),
        Some(other) => Err(Fault::Version(other)),
        None => Err(bad(format!("{INDEX} says no version"))),
    }
}

fn check(index: &Index, name: &str, bytes: &[u8]) -> Result<(), Fault> {
    let named = index
        .files
        .get(name)
        .ok_or_else(|| bad(format!("{name} is not named by its index")))?;
    let found = sha256_hex(bytes);
    if named.sha256 != found {
        return Err(Fault::Other(SupplyError::WrongDigest {
            place: format!("{name} in the bundle"),
            found,
            expected: named.sha256.escape_debug().to_string(),
        }));
    }
    if named.size == bytes.len() as u64 {
        Ok(())
    } else {
        Err(bad(format!("{name} has another size than its index says")))
    }
}

/// The archive itself is malformed, or ends early.
fn not_a_tar(error: io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::Other | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
            bad(format!("it is no whole tar archive: {error}"))
        }
        _ => Fault::Io(error),
    }
}

fn bad(reason: impl Into<String>) -> Fault {
    Fault::Bad(reason.into())
}
