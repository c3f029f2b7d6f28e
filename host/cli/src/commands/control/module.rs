//! The module that is to be deployed: read whole, and looked at.

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use aedile_engine::{Engine, EngineOptions, Inspection, LoadError};
use aedile_supply::{OciReference, Registry, read_signature};
use anyhow::Context as _;

use crate::commands::{self, supply};
use crate::config::{Config, ConfigError};
use crate::settings;

/// How a reference into a registry begins.
const OCI: &str = "oci://";

/// A module and what is known of it without running it.
pub(super) struct Module {
    pub(super) bytes: Arc<[u8]>,
    pub(super) inspection: Inspection,
    /// Where it came from, for the history.
    pub(super) source: String,
    /// The signature that came with it.
    pub(super) signature: Option<String>,
}

pub(super) fn engine() -> anyhow::Result<Engine> {
    Ok(Engine::new(EngineOptions::default(), commands::clock())?)
}

/// Read a module from a file or a registry, with its signature, and judge that by
/// the trusted keys.
pub(super) async fn read(config: &Config, engine: &Engine, what: &OsStr) -> anyhow::Result<Module> {
    let trust = config.trust()?;
    let module = match what.to_str() {
        Some(text) if text.starts_with(OCI) => pull(config, engine, text).await?,
        _ => file(config, engine, Path::new(what))?,
    };
    trust
        .check(&module.bytes, module.signature.as_deref())
        .with_context(|| format!("{} is refused", Path::new(what).display()))?;
    Ok(module)
}

/// A tag is resolved once: the history names the content by digest.
async fn pull(config: &Config, engine: &Engine, text: &str) -> anyhow::Result<Module> {
    let reference: OciReference = text.parse()?;
    let registry = Registry::new(config.registry()?, commands::clock())?;
    let pulled = registry.pull(&reference).await?;
    let inspection = engine
        .inspect(&pulled.module)
        .with_context(|| format!("the module at {reference} is refused"))?;
    let named = config.text(settings::SIGN_FILE).map(Path::new);
    Ok(Module {
        bytes: Arc::from(pulled.module),
        inspection,
        source: pulled.reference.to_string(),
        signature: named.map(read_signature).transpose()?.or(pulled.signature),
    })
}

fn file(config: &Config, engine: &Engine, path: &Path) -> anyhow::Result<Module> {
    let shown = path.display();
    let most = EngineOptions::default().module_bytes;
    let mut bytes = Vec::new();
    let unreadable = |error: std::io::Error| ConfigError::Argument {
        what: shown.to_string(),
        reason: format!(
            "the file cannot be read: {error}; the first argument is the module, as \
             target/wasm32-unknown-unknown/release/NAME.wasm, or oci://REGISTRY/REPOSITORY:TAG"
        ),
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    file.take(most as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(unreadable)?;
    let refused = || format!("{shown} is refused");
    if bytes.len() > most {
        let size = usize::try_from(size).unwrap_or(usize::MAX).max(bytes.len());
        return Err(LoadError::TooLarge { size, limit: most }).with_context(refused);
    }
    let inspection = engine.inspect(&bytes).with_context(refused)?;
    let name = path.file_name().unwrap_or(path.as_os_str());
    Ok(Module {
        bytes: Arc::from(bytes),
        inspection,
        source: format!("file:{}", name.to_string_lossy().escape_debug()),
        signature: supply::signature(config, path)?,
    })
}
