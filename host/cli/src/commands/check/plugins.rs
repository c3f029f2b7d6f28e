//! The plugins: the built-in ones and those of the directory.

use std::path::Path;

use aedile_clock::SharedClock;
use aedile_engine::{Engine, EngineOptions, Grants};

use super::Items;
use crate::builtins;
use crate::config::Config;
use crate::exit::Exit;
use crate::output::figures;

const WHAT: &str = "plugins";

/// Look at the plugins.
pub(super) async fn look(config: &Config, clock: &SharedClock, items: &mut Items) {
    let engine = match Engine::new(EngineOptions::default(), clock.clone()) {
        Ok(engine) => engine,
        Err(error) => return items.error(WHAT, error),
    };
    for (name, bytes) in builtins::modules() {
        match engine.inspect(bytes) {
            Ok(found) => items.ok(
                WHAT,
                format!(
                    "{name} {}, built in ({})",
                    found.manifest.version,
                    figures::short(&found.digest)
                ),
            ),
            Err(error) => items.fail(
                WHAT,
                Exit::Internal,
                format!("the built-in {name}: {error}"),
                "this build is broken",
            ),
        }
    }
    // A directory that cannot be read was told as a mistake of the configuration.
    let Ok(Some(directory)) = config.plugin_dir() else {
        return;
    };
    let entries = match std::fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) => {
            let text = format!("{} cannot be read: {error}", directory.display());
            return items.fail(WHAT, Exit::Usage, text, "");
        }
    };
    let mut files: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "wasm")
    });
    files.sort();
    if files.is_empty() {
        items.ok(WHAT, format!("no *.wasm in {}", directory.display()));
    }
    for file in files {
        match module(&engine, &file).await {
            Ok(text) => items.ok(WHAT, format!("{}: {text}", file.display())),
            Err(error) => items.fail(
                WHAT,
                Exit::Plugin,
                format!("{}: {error}", file.display()),
                "",
            ),
        }
    }
}

/// Load a module with the grants of the file beside it, as a node would.
async fn module(engine: &Engine, file: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(file)?;
    let beside = file.with_extension("toml");
    let text = match std::fs::read_to_string(&beside) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => anyhow::bail!("{}: {error}", beside.display()),
    };
    let settings = aedile_runtime::source::parse_settings(&text)
        .map_err(|error| anyhow::anyhow!("{}: {error}", beside.display()))?;
    let grants = settings
        .grants
        .iter()
        .map(|grant| grant.parse())
        .collect::<Result<Grants, _>>()
        .map_err(|error| anyhow::anyhow!("{}: {error}", beside.display()))?;
    let plugin = engine.load(bytes, &grants).await?;
    let state = if settings.enabled { "" } else { ", disabled" };
    Ok(format!(
        "{} {} ({}){state}",
        plugin.manifest().name,
        plugin.manifest().version,
        figures::short(plugin.digest())
    ))
}
