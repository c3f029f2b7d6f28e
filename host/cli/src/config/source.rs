//! Where a value came from.

use std::fmt;
use std::path::PathBuf;

use crate::settings::Setting;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The command line.
    Flag,
    /// An environment variable.
    Env,
    /// A line of the configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Env => f.write_str("environment"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
        }
    }
}

/// How a message names the place of a setting's value.
pub(super) fn place(setting: Setting, source: Option<&Source>) -> String {
    match source {
        Some(Source::Flag) => format!("--{}", setting.name),
        Some(Source::Env) => setting.env.to_owned(),
        Some(source @ Source::File { .. }) => format!("{source}: `{}`", setting.name),
        None => format!("`{}`", setting.name),
    }
}
