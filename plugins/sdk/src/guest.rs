//! The two calls of the host, turned into calls of a [`Plugin`]. Used by
//! [`export!`](crate::export) only.

use crate::host::Logging;
use crate::imports::Imports;
use crate::{Failure, Plugin, Report};

/// Checks a configuration: whether it decodes, then the plugin's own rules.
///
/// # Errors
/// What is wrong, for the operator.
pub fn validate<P: Plugin>(config: &str) -> Result<(), String> {
    report_panics();
    let config = parse::<P>(config)?;
    P::validate(&config)
}

/// Runs one tick on the component's imports.
///
/// # Errors
/// What the plugin failed with, or that its configuration does not decode.
pub fn tick<P: Plugin>() -> Result<Report, Failure> {
    report_panics();
    let text = crate::bindings::aedile::maintenance::job::config();
    let config = parse::<P>(&text).map_err(Failure::Reject)?;
    P::tick(&mut Imports::new(), &config)
}

/// Decodes a configuration as the host hands it over.
pub(crate) fn parse<P: Plugin>(text: &str) -> Result<P::Config, String> {
    serde_json::from_str(text).map_err(|error| format!("configuration: {error}"))
}

/// A panic ends in a trap that carries no text; the log line does.
fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        // Place and message stand on two lines; a log line is one.
        Imports::new().error(&panic.to_string().replace('\n', " "));
    }));
}

/// The bytes of a text, as an array that can be placed in a section.
#[must_use]
pub const fn bytes<const N: usize>(text: &str) -> [u8; N] {
    let text = text.as_bytes();
    let mut array = [0; N];
    let mut at = 0;
    while at < N {
        array[at] = text[at];
        at += 1;
    }
    array
}
