//! `aedile plugin list` and `aedile plugin inspect`.

use std::path::Path;
use std::sync::Arc;

use aedile_engine::{Engine, EngineOptions, Inspection, Kind};
use aedile_runtime::PluginStatus;
use anyhow::Context;
use serde::Serialize;
use serde_json::json;

use crate::commands::status::word;
use crate::commands::{self, told};
use crate::config::{Config, ConfigError};
use crate::exit::Exit;
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use crate::output::{self, figures};
use crate::{builtins, settings};

/// A plugin on a node.
#[derive(Clone, Debug, Serialize)]
struct OnNode {
    node: String,
    seen: i64,
    #[serde(flatten)]
    plugin: PluginStatus,
}

/// List the plugins of every node, and those of this binary.
pub(crate) async fn list(config: &Config) -> anyhow::Result<Exit> {
    let json = config.switch(settings::JSON)?;
    let clock = commands::clock();
    let reader = commands::reader(config, &clock).await?;
    let now = reader.database_now().await?.0;
    let records = reader.nodes().await?;
    let view = reader.view().await?;
    reader.close().await;
    let (deployed, deployed_json) = commands::control::deployed(&view.state, now);
    let on_nodes: Vec<OnNode> = records
        .iter()
        .filter_map(|record| Some((record, told(record)?)))
        .flat_map(|(record, told)| {
            told.plugins.into_iter().map(|plugin| OnNode {
                node: record.node.clone(),
                seen: record.seen.0,
                plugin,
            })
        })
        .collect();
    let engine = Engine::new(EngineOptions::default(), clock)?;
    let built_in: Vec<Inspection> = builtins::modules()
        .map(|(name, bytes)| {
            engine
                .inspect(bytes)
                .with_context(|| format!("the built-in plugin {name}"))
        })
        .collect::<Result<_, _>>()?;
    if json {
        let built_in: Vec<_> = built_in.iter().map(as_json).collect();
        output::json(&json!({
            "now": now,
            "deployed": deployed_json,
            "nodes": on_nodes,
            "built_in": built_in,
        }))?;
        return Ok(Exit::Ok);
    }
    if let Some(deployed) = deployed {
        output::line(&Style::stdout().bold("deployed"));
        show(&deployed);
        output::line("");
    }
    print_nodes(&on_nodes, now);
    output::line("");
    output::line(&Style::stdout().bold("built into this binary"));
    let mut table = Table::new(&[
        ("plugin", Align::Left),
        ("version", Align::Left),
        ("digest", Align::Left),
        ("by default", Align::Left),
        ("what it does", Align::Left),
    ]);
    for found in built_in {
        let manifest = found.manifest;
        let default = if builtins::on_by_default(&manifest.name) {
            "on"
        } else {
            "off"
        };
        table.row([
            manifest.name,
            manifest.version,
            figures::short(&found.digest).to_owned(),
            default.to_owned(),
            manifest.description,
        ]);
    }
    show(&table);
    Ok(Exit::Ok)
}

fn print_nodes(on_nodes: &[OnNode], now: i64) {
    output::line(&Style::stdout().bold("on the nodes"));
    if on_nodes.is_empty() {
        output::line("  no node has written its row yet; `aedile run` does");
        return;
    }
    let mut table = Table::new(&[
        ("node", Align::Left),
        ("seen", Align::Left),
        ("plugin", Align::Left),
        ("version", Align::Left),
        ("digest", Align::Left),
        ("state", Align::Left),
        ("ticks", Align::Right),
        ("failed", Align::Right),
        ("from", Align::Left),
    ]);
    for OnNode { node, seen, plugin } in on_nodes {
        table.row([
            node.clone(),
            figures::ago(*seen, now),
            plugin.name.clone(),
            plugin.version.clone(),
            figures::short(&plugin.digest).to_owned(),
            word(&plugin.state),
            figures::grouped(plugin.ticks),
            figures::grouped(plugin.failed),
            plugin.origin.clone(),
        ]);
    }
    show(&table);
}

fn show(table: &Table) {
    for line in table.lines() {
        output::line(&format!("  {line}"));
    }
}

/// Show what a module is.
pub(crate) async fn inspect(config: &Config, file: &Path) -> anyhow::Result<Exit> {
    let json = config.switch(settings::JSON)?;
    let bytes = bytes(file)?;
    let engine = Engine::new(EngineOptions::default(), commands::clock())?;
    let found = engine
        .inspect(&bytes)
        .with_context(|| format!("{} is refused", file.display()))?;
    if json {
        output::json(&as_json(&found))?;
    } else {
        print(&found);
    }
    Ok(Exit::Ok)
}

/// The bytes of a file, or of a built-in plugin where no file has its name.
pub(crate) fn bytes(file: &Path) -> anyhow::Result<Arc<[u8]>> {
    let error = match std::fs::read(file) {
        Ok(bytes) => return Ok(Arc::from(bytes)),
        Err(error) => error,
    };
    let named = builtins::modules().find(|(name, _)| file.to_str() == Some(*name));
    match named {
        Some((_, bytes)) => Ok(Arc::from(bytes)),
        None => Err(ConfigError::Argument {
            what: file.display().to_string(),
            reason: format!("the file cannot be read: {error}"),
        }
        .into()),
    }
}

fn as_json(found: &Inspection) -> serde_json::Value {
    let manifest = &found.manifest;
    let text = |grants: &[aedile_engine::Grant]| {
        grants.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    json!({
        "name": manifest.name,
        "version": manifest.version,
        "description": manifest.description,
        "digest": found.digest,
        "form": form(found.kind),
        "bytes": found.size,
        "world": found.world,
        "grants": text(&found.imports),
        "destructive": text(&destructive(found)),
        "functions": found.functions,
        "minimum_memory": found.minimum_memory,
        "interval_ms": u64::try_from(manifest.schedule.interval.as_millis()).unwrap_or(u64::MAX),
        "jitter_ms": u64::try_from(manifest.schedule.jitter.as_millis()).unwrap_or(u64::MAX),
        "config_schema": manifest.config_schema,
    })
}

fn form(kind: Kind) -> &'static str {
    match kind {
        Kind::Component => "component",
        Kind::Core => "core module, wrapped on load",
    }
}

fn destructive(found: &Inspection) -> Vec<aedile_engine::Grant> {
    found
        .imports
        .iter()
        .copied()
        .filter(aedile_engine::Grant::destructive)
        .collect()
}

fn print(found: &Inspection) {
    let style = Style::stdout();
    let manifest = &found.manifest;
    output::line(&style.bold(&format!("{} {}", manifest.name, manifest.version)));
    if !manifest.description.is_empty() {
        output::line(&manifest.description);
    }
    output::line("");
    output::line(&format!("digest    {}", found.digest));
    output::line(&format!(
        "form      {}, {}",
        form(found.kind),
        figures::bytes(found.size as u64)
    ));
    output::line(&format!("world     aedile:maintenance@{}", found.world));
    output::line(&format!(
        "memory    {} at its start",
        figures::bytes(found.minimum_memory)
    ));
    let schedule = &manifest.schedule;
    output::line(&format!(
        "schedule  every {}, and up to {} more",
        humantime::format_duration(schedule.interval),
        humantime::format_duration(schedule.jitter)
    ));
    output::line(&format!("calls     {}", found.functions.join(", ")));
    output::line("");
    output::line("It needs these grants; in the file beside it:");
    let grants: Vec<String> = found
        .imports
        .iter()
        .map(|grant| format!("\"{grant}\""))
        .collect();
    output::line(&format!("  grants = [{}]", grants.join(", ")));
    for grant in destructive(found) {
        output::line(&style.warn(&format!(
            "  {grant} is destructive: it can take live data out of the catalog"
        )));
    }
}
