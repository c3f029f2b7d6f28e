//! What the author of a plugin uses, one file a command.

mod bench;
mod capture;
mod check;
mod expect;
mod export;
mod ground;
mod new;
mod test;

pub(crate) use bench::bench;
pub(crate) use check::check;
pub(crate) use export::export;
pub(crate) use new::new;
pub(crate) use test::test;

/// A plugin that does not load.
#[derive(Debug, thiserror::Error)]
#[error("{what} is refused: {reason}")]
pub(crate) struct Refused {
    /// Its file.
    what: String,
    /// Why, and what to do.
    reason: String,
}
