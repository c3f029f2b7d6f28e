//! Why a payload could not be decoded.

/// Why a log row's payload or a snapshot's could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A version byte that this code does not know: a newer program wrote it.
    #[error("version byte {0} is not known (this program reads version 0)")]
    UnsupportedVersion(u8),
    /// A command type that this code does not know.
    #[error("command type {0} is not known")]
    UnknownCommand(u8),
    /// The bytes are not a payload: truncated, trailing, out of range, or no
    /// UTF-8.
    #[error("corrupt at byte {at}: {what}")]
    Corrupt {
        /// Position of the field, in bytes from the payload's start.
        at: usize,
        /// What is wrong there.
        what: &'static str,
    },
}
