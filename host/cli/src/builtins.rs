//! The modules inside the binary.

use std::sync::Arc;

use aedile_runtime::Builtin;

use crate::config::Config;

const MODULES: [(&str, &[u8]); 2] = [
    ("cleaner", include_bytes!("../modules/cleaner.wasm")),
    ("expiry", include_bytes!("../modules/expiry.wasm")),
];

/// The demo's custom plugin, as a user would drop it into a directory.
pub(crate) const KV_TTL: &[u8] = include_bytes!("../modules/kv_ttl.wasm");

/// A newer build of it.
pub(crate) const KV_TTL_NEXT: &[u8] = include_bytes!("../modules/kv_ttl_next.wasm");

/// Names of the built-in plugins.
pub(crate) fn names() -> impl Iterator<Item = &'static str> + Clone {
    MODULES.iter().map(|(name, _)| *name)
}

/// The modules by name.
pub(crate) fn modules() -> impl Iterator<Item = (&'static str, &'static [u8])> {
    MODULES.iter().copied()
}

/// The built-in plugins, set up as configured.
pub(crate) fn configured(config: &Config) -> Vec<Builtin> {
    MODULES
        .iter()
        .map(|(name, bytes)| Builtin {
            name: (*name).to_owned(),
            bytes: Arc::from(*bytes),
            settings: config.plugin(name),
        })
        .collect()
}
