//! Log lines: on standard error, as text or as JSON, without secrets.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::config::{Config, ConfigError};
use crate::output::style;
use crate::secrets::{self, MaskedStderr};
use crate::settings;

/// Start logging.
pub(crate) fn start(config: &Config, default_level: &str) -> Result<(), ConfigError> {
    secrets::register_environment();
    let level = config.text(settings::LOG_LEVEL).unwrap_or(default_level);
    // A level alone is about Aedile: its libraries would drown it.
    let directives = match level {
        "error" | "warn" => level.to_owned(),
        "info" | "debug" | "trace" => format!("warn,aedile={level}"),
        other => other.to_owned(),
    };
    let filter = EnvFilter::builder().parse(&directives).map_err(|_| {
        config.wrong(
            settings::LOG_LEVEL,
            format!("`{level}` is no level; known are error, warn, info, debug, trace, and lists such as info,aedile_lease=debug"),
        )
    })?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::NONE)
        .with_writer(|| MaskedStderr);
    // A second start in one process (tests) keeps the first.
    let _ = match config.text(settings::LOG_FORMAT).unwrap_or("text") {
        "text" => lines
            .with_ansi(std::io::stderr().is_terminal() && style::wanted())
            .try_init(),
        "json" => lines.json().flatten_event(true).with_ansi(false).try_init(),
        other => {
            return Err(config.wrong(
                settings::LOG_FORMAT,
                format!("`{other}` is neither text nor json"),
            ));
        }
    };
    Ok(())
}
