//! What can go wrong with the runtime as a whole.

use std::path::PathBuf;

/// A failure that keeps the runtime from starting or from going on. What goes
/// wrong inside one plugin is never one of these: it is that plugin's status.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// An option is out of its range.
    #[error("option `{option}`: {reason}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// A plugin that ships inside the binary does not load: the build is broken.
    #[error("the built-in plugin `{name}` does not load: {reason}")]
    Builtin {
        /// Its name.
        name: String,
        /// Why it does not load.
        reason: String,
    },
    /// The plugin directory cannot be read.
    #[error("the plugin directory {} cannot be read: {reason}", path.display())]
    Directory {
        /// Its path.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The metadata log failed.
    #[error("the metadata log failed")]
    Log(#[source] aedile_log::LogError),
    /// The object store failed.
    #[error("the object store failed: {0}")]
    Storage(String),
    /// The lease was not to be had in time.
    #[error("the lease was not to be had within {} s: {reason}", waited.as_secs())]
    NoLease {
        /// How long it was waited for.
        waited: std::time::Duration,
        /// Who holds it, or why this node does not contend.
        reason: String,
    },
    /// Database or store did not answer in the middle of a pass.
    #[error("the pass could not go on: {reason}")]
    Unavailable {
        /// What did not answer.
        reason: String,
    },
    /// The lease was lost in the middle of a pass. What was done stands; the
    /// next pass goes on from there.
    #[error("the lease was lost in the middle of the pass; run it again")]
    LeaseLost,
    /// The runtime was asked to stop before it was done.
    #[error("stopped before the pass was done")]
    Stopped,
}
