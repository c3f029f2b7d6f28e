//! What people read: tables, sizes, durations, colour.

pub(crate) mod figures;
pub(crate) mod style;
pub(crate) mod table;

use std::io::{self, Write};

use serde::Serialize;

/// Print a line on standard output. A reader that went away (`| head`) is no
/// failure: there is nobody left to tell.
pub(crate) fn line(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// Print a value as JSON.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    line(&serde_json::to_string_pretty(value)?);
    Ok(())
}

/// The first `limit` items, and a line that says how many were left out.
pub(crate) fn cut<T>(items: &[T], limit: Option<usize>) -> (&[T], Option<String>) {
    match limit {
        Some(limit) if items.len() > limit => {
            let rest = items.len() - limit;
            (
                &items[..limit],
                Some(format!("… {rest} more; --all lists them")),
            )
        }
        _ => (items, None),
    }
}
