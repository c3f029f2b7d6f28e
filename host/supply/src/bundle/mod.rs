//! Bundles: one file that carries a plugin to a site without a network.
//!
//! A tar archive of a module, the record of how it is to run, its signature if
//! it has one, and `bundle.json`, which comes first and names size and SHA-256
//! of each of the others. Any tool can open it; the same content gives the same
//! bytes. It is read whole and checked whole: what is handed on is what was
//! written, or nothing is.

mod read;
mod write;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of the form that is written and read.
const VERSION: u64 = 1;

const INDEX: &str = "bundle.json";
const RECORD: &str = "record.json";
const MODULE: &str = "module.wasm";
const SIGNATURE: &str = "module.wasm.minisig";

/// The longest index, record and signature. A record holds a configuration.
const LONGEST_TEXT: u64 = 4 * 1024 * 1024;

/// A plugin that travels.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// How it is to run: a JSON object whose form is the caller's.
    pub record: serde_json::Value,
    /// Its module, as it was uploaded.
    pub module: Vec<u8>,
    /// Its signature in minisign's format, if it is signed.
    pub signature: Option<String>,
}

/// The first entry.
#[derive(Debug, Serialize, Deserialize)]
struct Index {
    v: u64,
    files: BTreeMap<String, Entry>,
}

/// What the index says of another entry.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    size: u64,
    sha256: String,
}

#[cfg(test)]
mod tests;
