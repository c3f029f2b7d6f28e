//! What lies where in the demo's directory.

use std::path::{Path, PathBuf};

/// The demo's directory.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    root: PathBuf,
}

impl Layout {
    /// The layout below a directory.
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// Make the directories.
    pub(crate) fn create(&self) -> std::io::Result<()> {
        for directory in [self.objects(), self.plugins(), self.logs()] {
            std::fs::create_dir_all(directory)?;
        }
        Ok(())
    }

    /// The directory itself.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The metadata database.
    pub(crate) fn database(&self) -> PathBuf {
        self.root.join("meta.db")
    }

    /// The metadata database as a URL.
    pub(crate) fn meta_url(&self) -> String {
        format!("sqlite:{}", self.database().display())
    }

    /// The object directory.
    pub(crate) fn objects(&self) -> PathBuf {
        self.root.join("objects")
    }

    /// The object directory as a storage URI.
    pub(crate) fn storage(&self) -> String {
        format!("-2@file://{}", self.objects().display())
    }

    /// The plugin directory.
    pub(crate) fn plugins(&self) -> PathBuf {
        self.root.join("plugins")
    }

    /// Where the processes' logs go.
    pub(crate) fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// What the writer did.
    pub(crate) fn ledger(&self) -> PathBuf {
        self.root.join("ledger.jsonl")
    }

    /// What the observer saw.
    pub(crate) fn observed(&self) -> PathBuf {
        self.root.join("observed.jsonl")
    }

    /// What was done to the nodes.
    pub(crate) fn deeds(&self) -> PathBuf {
        self.root.join("deeds.jsonl")
    }
}
