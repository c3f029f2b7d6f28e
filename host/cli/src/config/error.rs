//! What can be wrong with the configuration.

use std::path::PathBuf;

use crate::settings::Setting;

/// A mistake in the configuration: what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// A setting that the command needs is not set.
    #[error("`{0}` is not set: give --{0} {1}, set {2}, or write {0} = \"…\" in aedile.toml", setting.name, setting.value.unwrap_or("true"), setting.env)]
    Missing { setting: Setting },
    /// A value that is none.
    #[error("{place}: {reason}")]
    Value { place: String, reason: String },
    /// A key that nothing reads.
    #[error("{}:{line}: unknown key `{key}`{}", path.display(), hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
    UnknownKey {
        path: PathBuf,
        line: usize,
        key: String,
        hint: Option<String>,
    },
    /// A key that is no setting of the file.
    #[error("{}:{line}: `{}` cannot be set in a file; give --{} or set {}", path.display(), setting.name, setting.name, setting.env)]
    NotInFile {
        path: PathBuf,
        line: usize,
        setting: Setting,
    },
    /// Something else about a line of the file.
    #[error("{}:{line}: {reason}", path.display())]
    Line {
        path: PathBuf,
        line: usize,
        reason: String,
    },
    /// The file cannot be read.
    #[error("the configuration file {} cannot be read: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    /// An argument of a command.
    #[error("{what}: {reason}")]
    Argument { what: String, reason: String },
}
