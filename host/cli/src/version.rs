//! What this build is.

/// Whether the guard that protects live data was left out: a build that exists
/// to show that the demo's verdict notices.
pub(crate) const WITHOUT_GUARD: bool = cfg!(feature = "without-guard");

/// The version alone.
pub(crate) const NUMBER: &str = env!("CARGO_PKG_VERSION");

/// What `--version` says after the name.
#[cfg(not(feature = "without-guard"))]
pub(crate) const TEXT: &str = env!("CARGO_PKG_VERSION");
/// What `--version` says after the name.
#[cfg(feature = "without-guard")]
pub(crate) const TEXT: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "-WITHOUT-GUARD (deletes live data; for the project's own tests only)"
);

/// Say loudly what a build without the guard is.
pub(crate) fn warn_if_unguarded() {
    if WITHOUT_GUARD {
        tracing::error!(
            "THIS BUILD HAS NO GUARD: it deletes live data. Never point it at anything but a demo."
        );
    }
}
