//! `aedile status`: who leads, what waits, what runs where, the last ticks.

use aedile_log::{DivergenceRecord, NodeRecord, RunRecord};
use aedile_runtime::{PluginState, PluginStatus, Status, Wanted, WantedState};
use serde_json::{Value, json};

use crate::commands::lease::Shown;
use crate::commands::state::Counted;
use crate::commands::{self, LISTED, SHARED_LEASE, told};
use crate::config::Config;
use crate::exit::Exit;
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use crate::output::{self, figures};
use crate::settings;

/// Most runs that `--all` lists.
const MOST_RUNS: u32 = 1000;
/// A node that was not seen for this many heartbeats of the default length is
/// taken to be gone, in milliseconds.
const GONE_MS: i64 = 90_000;

/// Everything that the database tells.
struct Found {
    now: i64,
    leases: Vec<Shown>,
    counted: Counted,
    nodes: Vec<(NodeRecord, Option<Status>)>,
    runs: Vec<RunRecord>,
    divergences: Vec<DivergenceRecord>,
}

/// Show the status.
pub(crate) async fn run(config: &Config) -> anyhow::Result<Exit> {
    let json = config.switch(settings::JSON)?;
    let limit = if config.switch(settings::EVERY)? {
        MOST_RUNS
    } else {
        LISTED as u32
    };
    let reader = commands::reader(config, &commands::clock()).await?;
    let now = reader.database_now().await?.0;
    let leases = reader.lease_rows().await?;
    let view = reader.view().await?;
    let nodes = reader.nodes().await?;
    let runs = reader.runs(limit).await?;
    let divergences = reader.divergences().await?;
    reader.close().await;
    let found = Found {
        now,
        leases: leases.into_iter().map(|row| Shown::new(row, now)).collect(),
        counted: Counted::new(&view, now),
        nodes: nodes
            .into_iter()
            .map(|record| (told(&record), record))
            .map(|(told, record)| (record, told))
            .collect(),
        runs,
        divergences,
    };
    if json {
        output::json(&as_json(&found))?;
    } else {
        print(&found);
    }
    Ok(Exit::Ok)
}

fn as_json(found: &Found) -> Value {
    let nodes: Vec<Value> = found
        .nodes
        .iter()
        .map(|(record, told)| {
            json!({
                "node": record.node,
                "version": record.version,
                "started": record.started.0,
                "seen": record.seen.0,
                "gone": is_gone(record, found.now),
                "applied_index": record.applied_index,
                "status": told,
            })
        })
        .collect();
    let runs: Vec<Value> = found
        .runs
        .iter()
        .map(|run| {
            json!({
                "id": run.id,
                "plugin": run.plugin,
                "version": run.version,
                "digest": run.digest,
                "node": run.node,
                "epoch": run.epoch,
                "started": run.started.0,
                "ended": run.ended.0,
                "outcome": run.outcome,
                "summary": run.summary,
            })
        })
        .collect();
    let divergences: Vec<Value> = found
        .divergences
        .iter()
        .map(|record| {
            json!({
                "node": record.node,
                "index": record.index,
                "section": record.section,
                "found": record.found.0,
            })
        })
        .collect();
    json!({
        "divergences": divergences,
        "now": found.now,
        "leases": found.leases,
        "state": found.counted,
        "nodes": nodes,
        "runs": runs,
    })
}

pub(crate) fn is_gone(record: &NodeRecord, now: i64) -> bool {
    now.saturating_sub(record.seen.0) > GONE_MS
}

fn print(found: &Found) {
    let style = Style::stdout();
    let shared = found.leases.iter().find(|row| row.name == SHARED_LEASE);
    let lease = shared.map_or("there is no row yet".to_owned(), |row| row.line(found.now));
    output::line(&format!("lease    {lease}"));
    for row in found.leases.iter().filter(|row| row.name != SHARED_LEASE) {
        output::line(&format!("lease    {}: {}", row.name, row.line(found.now)));
    }
    let state = serde_json::to_value(found.counted).unwrap_or_default();
    let figure = |name: &str| state.get(name).and_then(Value::as_u64).unwrap_or(0);
    output::line(&format!(
        "log      index {}",
        figures::grouped(figure("index"))
    ));
    output::line(&format!(
        "backlog  {} in the destroyed queue, {} ({} lapsed)",
        figures::count(figure("destroyed"), "mark"),
        figures::count(figure("reservations"), "reservation"),
        figures::grouped(figure("lapsed_reservations")),
    ));
    for record in &found.divergences {
        output::line(&format!(
            "{} {} since {}: {}",
            style.bad("diverged"),
            record.node,
            figures::ago(record.found.0, found.now),
            record.reason
        ));
    }
    nodes(found, style);
    for (record, told) in &found.nodes {
        if let Some(told) = told
            && !is_gone(record, found.now)
        {
            concerns(told, style);
        }
    }
    for told in found.nodes.iter().filter_map(|(_, told)| told.as_ref()) {
        if let Some(swept) = &told.orphans {
            output::line("");
            output::line(&format!(
                "orphans  {} ({}) of {}, {} old enough; swept {} by {}",
                figures::grouped(swept.orphans),
                figures::bytes(swept.bytes),
                figures::count(swept.objects, "object"),
                figures::grouped(swept.ripe),
                figures::ago(swept.at, found.now),
                told.node
            ));
        }
    }
    runs(found, style);
}

fn nodes(found: &Found, style: Style) {
    output::line("");
    output::line(&style.bold("nodes"));
    if found.nodes.is_empty() {
        output::line("  none has ever written its row; `aedile run` does");
        return;
    }
    let mut table = Table::new(&[
        ("node", Align::Left),
        ("role", Align::Left),
        ("seen", Align::Left),
        ("version", Align::Left),
        ("index", Align::Right),
        ("plugins", Align::Left),
    ]);
    for (record, told) in &found.nodes {
        let role = told.as_ref().map_or("?".to_owned(), role);
        let gone = is_gone(record, found.now) && role != "stopped";
        let plugins: Vec<String> = told
            .iter()
            .flat_map(|told| &told.plugins)
            .map(plugin)
            .collect();
        table.row([
            record.node.clone(),
            if gone { "gone".to_owned() } else { role },
            figures::ago(record.seen.0, found.now),
            record.version.clone(),
            record.applied_index.to_string(),
            plugins.join(", "),
        ]);
    }
    for line in table.lines() {
        output::line(&format!("  {line}"));
    }
}

/// The role's word, as JSON has it.
pub(crate) fn role(told: &Status) -> String {
    word(&told.role)
}

/// The word of a unit variant.
pub(crate) fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn plugin(plugin: &PluginStatus) -> String {
    let mut notes = Vec::new();
    if plugin.state != PluginState::Absent {
        notes.push(figures::short(&plugin.digest).to_owned());
    }
    if let Some(revision) = plugin.revision {
        notes.push(format!("revision {revision}"));
    }
    if matches!(
        plugin.state,
        PluginState::Disabled | PluginState::Stopped | PluginState::Absent
    ) {
        notes.push(word(&plugin.state));
    }
    if let Some(wanted) = &plugin.wanted
        && wanted.state != WantedState::Running
    {
        let state = wanted.state.as_str();
        notes.push(match &wanted.state {
            WantedState::Canary { done, of, .. } => {
                format!("revision {} {state} {done} of {of}", wanted.number)
            }
            _ => format!("revision {} {state}", wanted.number),
        });
    }
    let version = match plugin.version.as_str() {
        "" => String::new(),
        version => format!(" {version}"),
    };
    format!("{}{version} ({})", plugin.name, notes.join(", "))
}

/// What was deployed and is not what runs.
fn deployed(told: &Status, lines: &mut Vec<String>) {
    for plugin in &told.plugins {
        if let Some(back) = &plugin.rolled_back_from {
            lines.push(format!(
                "plugin {}: revision {} ({}) was taken back by {}: {}",
                plugin.name, back.number, back.version, back.by, back.why
            ));
        }
        if let Some(Wanted {
            number,
            state:
                WantedState::Canary {
                    done,
                    of,
                    differing,
                    last,
                },
            ..
        }) = &plugin.wanted
        {
            let last = last.as_deref().unwrap_or("nothing differs");
            lines.push(format!(
                "plugin {}: revision {number} is on trial, {done} of {of} ticks, {differing} differ: {last}",
                plugin.name
            ));
        }
    }
    if let Some(stop) = &told.stop_file {
        lines.push(match &stop.problem {
            Some(problem) => problem.clone(),
            None => format!(
                "the stop file {} stops {}",
                stop.path,
                stop.plugins.join(", ")
            ),
        });
    }
}

/// What an operator should look at.
fn concerns(told: &Status, style: Style) {
    let mut lines = Vec::new();
    if let Some(log) = &told.log {
        lines.push(format!("log: {log}"));
    }
    if let Some(doubt) = &told.store_suspect {
        lines.push(format!("storage: {doubt}"));
    }
    for note in &told.store_notes {
        lines.push(format!("storage: {note}"));
    }
    if !told.detail.is_empty()
        && !matches!(word(&told.role).as_str(), "holder" | "follower" | "stopped")
    {
        lines.push(format!("{}: {}", word(&told.role), told.detail));
    }
    for problem in &told.parked_problems {
        lines.push(format!(
            "parked: the key `{}`: {}",
            problem.key, problem.text
        ));
    }
    for problem in &told.problems {
        let what = match &problem.plugin {
            Some(plugin) if problem.origin.starts_with("revision ") => {
                format!("plugin {plugin}, {}", problem.origin)
            }
            _ => format!("plugin file {}", problem.origin),
        };
        lines.push(format!("{what}: {}", problem.text));
    }
    deployed(told, &mut lines);
    for plugin in told.plugins.iter().filter(|plugin| plugin.failures > 0) {
        let error = plugin.error.as_deref().unwrap_or("no reason given");
        lines.push(format!(
            "plugin {} is {}: {error}",
            plugin.name,
            word(&plugin.state)
        ));
    }
    if let Some(held) = told.orphans.as_ref().and_then(|found| found.held.as_ref()) {
        lines.push(format!("no orphan is deleted: {held}"));
    }
    for (what, objects) in [
        ("conflict", &told.conflicts),
        ("parked", &told.parked),
        ("not deleted", &told.failing),
    ] {
        let (shown, more) = output::cut(objects, Some(5));
        lines.extend(
            shown
                .iter()
                .map(|object| format!("{what}: object {}: {}", object.id, object.reason)),
        );
        if more.is_some() {
            lines.push(format!(
                "{what}: {} more; `aedile {} --all` lists them",
                objects.len() - shown.len(),
                if what == "parked" {
                    "parked list"
                } else {
                    "plan"
                }
            ));
        }
    }
    if lines.is_empty() {
        return;
    }
    output::line("");
    output::line(&style.warn(&format!("{} says", told.node)));
    for line in lines {
        output::line(&format!("  {line}"));
    }
}

fn runs(found: &Found, style: Style) {
    output::line("");
    output::line(&style.bold("last ticks that did something or failed"));
    if found.runs.is_empty() {
        output::line("  none");
        return;
    }
    let mut table = Table::new(&[
        ("when", Align::Left),
        ("plugin", Align::Left),
        ("node", Align::Left),
        ("epoch", Align::Right),
        ("outcome", Align::Left),
        ("summary", Align::Left),
    ]);
    for run in &found.runs {
        table.row([
            figures::ago(run.started.0, found.now),
            format!("{} {}", run.plugin, run.version),
            run.node.clone(),
            run.epoch.to_string(),
            run.outcome.clone(),
            run.summary.clone(),
        ]);
    }
    for line in table.lines() {
        output::line(&format!("  {line}"));
    }
}
