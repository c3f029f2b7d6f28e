//! The modules inside the binary.

use std::sync::Arc;

use aedile_runtime::Builtin;

use crate::config::{Config, ConfigError};

const MODULES: [(&str, &[u8]); 7] = [
    ("cleaner", include_bytes!("../modules/cleaner.wasm")),
    ("expiry", include_bytes!("../modules/expiry.wasm")),
    ("kv-ttl", KV_TTL),
    ("orphans", include_bytes!("../modules/orphans.wasm")),
    ("retention", include_bytes!("../modules/retention.wasm")),
    ("scrub", include_bytes!("../modules/scrub.wasm")),
    ("trimmed", include_bytes!("../modules/trimmed.wasm")),
];

/// Those that run only where the operator enables them: they have grants that
/// are destructive, have to be told what to do, or cost requests.
const OFF: [&str; 5] = ["kv-ttl", "orphans", "retention", "scrub", "trimmed"];

/// Those that can do nothing until they are told what to do. As long as they
/// are off they are left out, and their names are free for a plugin directory.
const TOLD: [&str; 2] = ["kv-ttl", "retention"];

/// The plugin that the demo drops into a directory, as a user would.
pub(crate) const KV_TTL: &[u8] = include_bytes!("../modules/kv_ttl.wasm");

/// A newer build of it.
pub(crate) const KV_TTL_NEXT: &[u8] = include_bytes!("../modules/kv_ttl_next.wasm");

/// Names of the built-in plugins.
pub(crate) fn names() -> impl Iterator<Item = &'static str> + Clone {
    MODULES.iter().map(|(name, _)| *name)
}

/// Names of those that are off until they are enabled.
pub(crate) fn off() -> impl Iterator<Item = &'static str> + Clone {
    OFF.iter().copied()
}

/// Whether a built-in plugin runs where nothing is said of it.
pub(crate) fn on_by_default(name: &str) -> bool {
    !OFF.contains(&name)
}

/// The modules by name.
pub(crate) fn modules() -> impl Iterator<Item = (&'static str, &'static [u8])> {
    MODULES.iter().copied()
}

/// Whether a built-in plugin is there by this configuration: one that is off and
/// has to be told what to do is not, so that its name is free.
pub(crate) fn present(config: &Config, name: &str) -> Result<bool, ConfigError> {
    let enabled = config.plugin(name).enabled || config.enabled()?.contains(&name);
    Ok(enabled || !TOLD.contains(&name))
}

/// The built-in plugins, set up as configured.
pub(crate) fn configured(config: &Config) -> Result<Vec<Builtin>, ConfigError> {
    let enabled = config.enabled()?;
    Ok(MODULES
        .iter()
        .map(|(name, bytes)| {
            let mut settings = config.plugin(name);
            settings.enabled |= enabled.contains(name);
            (name, bytes, settings)
        })
        .filter(|(name, _, settings)| settings.enabled || !TOLD.contains(name))
        .map(|(name, bytes, settings)| Builtin {
            name: (*name).to_owned(),
            bytes: Arc::from(*bytes),
            settings,
        })
        .collect())
}
