//! The files from which the verdict is computed: one JSON object a line,
//! appended as things happen.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::marker::PhantomData;
use std::path::Path;

use anyhow::Context;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// What the writer says about what it made. A later line about the same thing
/// replaces an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub(crate) enum Ledger {
    /// A data object.
    Object {
        /// Its id, as the log gave it out.
        id: u64,
        /// SHA-256 of its bytes, in hexadecimal.
        sha256: String,
        /// How many bytes.
        bytes: u64,
        /// What became of it.
        fate: Fate,
        /// What was done to it.
        why: String,
    },
    /// A file of another kind, which nobody may touch.
    Foreign {
        /// Its key.
        key: String,
        /// SHA-256 of its bytes.
        sha256: String,
    },
    /// An entry of the key-value map.
    Key {
        /// The key.
        key: String,
        /// Whether the time-to-live rule is about it.
        expires: bool,
    },
    /// A stream id that was acknowledged.
    Stream {
        /// The id.
        id: u64,
    },
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Fate {
    /// In the catalog.
    Live,
    /// In the catalog, although a mark names it.
    Conflict,
    /// Destroyed: its bytes must go.
    Destroyed,
    /// Destroyed, but its bytes belong to another object now.
    Kept,
    /// Uploaded under a reservation that lapses.
    Abandoned,
    /// Uploaded under a reservation that stands.
    Reserved,
}

/// What the observer saw, with the database's time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub(crate) enum Observed {
    /// The lease row has changed.
    Lease {
        /// When it was read, in Unix milliseconds.
        at: i64,
        /// When the row before it was read for the last time.
        before: i64,
        /// Its holder.
        holder: String,
        /// Its epoch.
        epoch: u64,
        /// Its expiry, in Unix milliseconds.
        expires: i64,
    },
    /// A node's row has changed.
    Node {
        /// When it was read, in Unix milliseconds.
        at: i64,
        /// The node.
        node: String,
        /// When its process began, in Unix milliseconds.
        started: i64,
        /// Its plugins: name, version, digest.
        plugins: Vec<(String, String, String)>,
    },
}

/// What was done to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Deed {
    /// When, by the database's clock, in Unix milliseconds.
    pub(crate) at: i64,
    /// What.
    pub(crate) deed: DeedKind,
    /// To which node.
    pub(crate) node: String,
    /// Epoch of the lease at that moment.
    pub(crate) epoch: u64,
    /// Destroyed objects whose bytes were still there.
    pub(crate) left: u64,
}

/// Kinds of deeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DeedKind {
    /// Killed by SIGKILL.
    Kill,
    /// Stopped by SIGTERM.
    Stop,
}

/// Appends lines to a file.
#[derive(Debug)]
pub(crate) struct Appender<T> {
    file: File,
    kind: PhantomData<fn(T)>,
}

impl<T: Serialize> Appender<T> {
    /// Open a file, making it if need be.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        Ok(Self {
            file,
            kind: PhantomData,
        })
    }

    /// Append lines, in one write.
    pub(crate) fn append<'a>(
        &mut self,
        lines: impl IntoIterator<Item = &'a T>,
    ) -> anyhow::Result<()>
    where
        T: 'a,
    {
        let mut bytes = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut bytes, line)?;
            bytes.push(b'\n');
        }
        self.file.write_all(&bytes)?;
        Ok(())
    }
}

/// Read all lines of a file.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> anyhow::Result<Vec<T>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut lines = Vec::new();
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.with_context(|| format!("cannot read {}", path.display()))?;
        let value = serde_json::from_str(&line)
            .with_context(|| format!("{}:{} is no record of a demo", path.display(), number + 1))?;
        lines.push(value);
    }
    Ok(lines)
}
