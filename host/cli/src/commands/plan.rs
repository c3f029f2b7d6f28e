//! `aedile plan`: what a pass would do now. Writes nothing.

use std::sync::Arc;

use aedile_engine::{Engine, EngineOptions};
use aedile_runtime::plan::LeftObject;
use aedile_runtime::{Plan, PlanParts};
use aedile_storage::{Store, StoreOptions};

use crate::commands::{self, LISTED, run::runtime_options};
use crate::config::Config;
use crate::exit::Exit;
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use crate::output::{self, figures};
use crate::settings;

/// Compute and show the plan.
pub(crate) async fn run(config: &Config) -> anyhow::Result<Exit> {
    let json = config.switch(settings::JSON)?;
    let limit = (!config.switch(settings::EVERY)?).then_some(LISTED);
    let url = config.meta_url()?;
    let storage = config.storage()?;
    let options = runtime_options(config)?;
    let clock = commands::clock();
    let engine = Arc::new(Engine::new(EngineOptions::default(), clock.clone())?);
    let store = Store::open(&storage, StoreOptions::default(), clock.clone())?;
    store.check().await?;
    let reader = commands::reader(config, &clock).await?;
    let parts = PlanParts {
        clock,
        engine,
        reader,
        store,
    };
    let plan = aedile_runtime::plan(options, parts).await?;
    if json {
        output::json(&plan)?;
    } else {
        output::line(&format!("database {url}"));
        output::line(&format!("storage  {storage}"));
        print(&plan, limit);
    }
    Ok(exit_of(&plan))
}

/// A plan that could be computed is a success, whatever it says; one that a
/// plugin or the storage kept from being whole is not.
fn exit_of(plan: &Plan) -> Exit {
    if plan.store_suspect.is_some() {
        Exit::Storage
    } else if plan.plugins.iter().any(|ticks| ticks.failure.is_some()) || !plan.problems.is_empty()
    {
        Exit::Plugin
    } else {
        Exit::Ok
    }
}

fn print(plan: &Plan, limit: Option<usize>) {
    let style = Style::stdout();
    output::line(&format!(
        "log index {}, time {} by the database",
        plan.index,
        figures::time(plan.now)
    ));
    if let Some(doubt) = &plan.store_suspect {
        output::line(&style.bad(&format!("\nNothing would be deleted: {doubt}")));
    }
    deletes(plan, limit, style);
    cleans(plan, limit, style);
    orphans(plan, limit, style);
    expires(plan, limit, style);
    others(plan, limit, style);
    left(
        style.warn("conflicts: marks that contradict the catalog, never acted on"),
        &plan.conflicts,
        limit,
    );
    left(
        style.warn("parked: what cannot be deleted; `aedile parked list` tells more"),
        &plan.parked,
        limit,
    );
    left(style.warn("refused"), &plan.refused, limit);
    for ticks in plan.plugins.iter().filter(|ticks| ticks.failure.is_some()) {
        let failure = ticks.failure.as_deref().unwrap_or_default();
        output::line(&style.bad(&format!(
            "\nplugin {} {} fails: {failure}",
            ticks.plugin, ticks.version
        )));
    }
    for problem in &plan.problems {
        output::line(&style.bad(&format!(
            "\n{} does not run: {}",
            problem.origin, problem.text
        )));
    }
    totals(plan, style);
}

fn title(text: &str) {
    output::line("");
    output::line(text);
}

fn show(table: &Table, more: Option<String>) {
    for line in table.lines() {
        output::line(&format!("  {line}"));
    }
    if let Some(more) = more {
        output::line(&format!("  {more}"));
    }
}

fn deletes(plan: &Plan, limit: Option<usize>, style: Style) {
    if plan.deletes.is_empty() {
        return;
    }
    title(&style.bold(&format!(
        "would delete the bytes of {}",
        figures::count(plan.totals.deletes, "object")
    )));
    let mut table = Table::new(&[
        ("object", Align::Right),
        ("bytes", Align::Right),
        ("mark", Align::Left),
        ("key", Align::Left),
        ("reason", Align::Left),
    ]);
    let (shown, more) = output::cut(&plan.deletes, limit);
    for delete in shown {
        table.row([
            delete.id.to_string(),
            delete.bytes.map_or("absent".to_owned(), figures::bytes),
            delete.operation.clone(),
            delete.key.clone(),
            delete.reason.clone(),
        ]);
    }
    show(&table, more);
}

fn cleans(plan: &Plan, limit: Option<usize>, style: Style) {
    // A mark whose bytes are listed above needs no line of its own.
    let kept: Vec<_> = plan
        .cleans
        .iter()
        .filter(|clean| clean.operation == "keep-data")
        .collect();
    if plan.cleans.is_empty() {
        return;
    }
    title(&style.bold(&format!(
        "would take {} off the destroyed queue: those above{}",
        figures::count(plan.totals.cleans, "mark"),
        if kept.is_empty() {
            String::new()
        } else {
            format!(", and {} whose bytes stay", kept.len())
        }
    )));
    let (shown, more) = output::cut(&kept, limit);
    let ids: Vec<String> = shown.iter().map(|clean| clean.id.to_string()).collect();
    if !ids.is_empty() {
        output::line(&format!("  bytes stay: {}", ids.join(" ")));
    }
    if let Some(more) = more {
        output::line(&format!("  {more}"));
    }
}

fn orphans(plan: &Plan, limit: Option<usize>, style: Style) {
    let Some(found) = &plan.orphans else {
        return;
    };
    if let Some(held) = &found.held {
        output::line(&style.bad(&format!("\nno orphan would be deleted: {held}")));
    }
    if found.orphans.is_empty() {
        return;
    }
    title(&style.bold(&format!(
        "would leave {} ({}) for now",
        figures::count(found.left, "orphan"),
        figures::bytes(found.bytes)
    )));
    let mut table = Table::new(&[
        ("object", Align::Right),
        ("bytes", Align::Right),
        ("first seen", Align::Left),
        ("key", Align::Left),
        ("reason", Align::Left),
    ]);
    let (shown, more) = output::cut(&found.orphans, limit);
    for orphan in shown {
        table.row([
            orphan.id.to_string(),
            figures::bytes(orphan.bytes),
            figures::time(orphan.first_seen),
            orphan.key.clone(),
            orphan.reason.clone(),
        ]);
    }
    show(&table, more);
}

fn expires(plan: &Plan, limit: Option<usize>, style: Style) {
    if plan.expires.is_empty() {
        return;
    }
    title(&style.bold(&format!(
        "would expire {}",
        figures::count(plan.totals.expires, "reservation")
    )));
    let mut table = Table::new(&[
        ("object", Align::Right),
        ("lapsed", Align::Left),
        ("ago", Align::Left),
    ]);
    let (shown, more) = output::cut(&plan.expires, limit);
    for expiry in shown {
        table.row([
            expiry.id.to_string(),
            figures::time(expiry.deadline),
            figures::ago(expiry.deadline, plan.now),
        ]);
    }
    show(&table, more);
}

fn others(plan: &Plan, limit: Option<usize>, style: Style) {
    if plan.commands.is_empty() {
        return;
    }
    title(&style.bold(&format!(
        "would propose {}",
        figures::count(plan.totals.commands, "other command")
    )));
    let mut table = Table::new(&[
        ("plugin", Align::Left),
        ("command", Align::Left),
        ("about", Align::Left),
    ]);
    let (shown, more) = output::cut(&plan.commands, limit);
    for command in shown {
        table.row([
            command.plugin.clone(),
            command.command.clone(),
            command.detail.clone(),
        ]);
    }
    show(&table, more);
}

fn left(heading: String, objects: &[LeftObject], limit: Option<usize>) {
    if objects.is_empty() {
        return;
    }
    title(&format!("{heading} ({})", objects.len()));
    let mut table = Table::new(&[
        ("object", Align::Right),
        ("mark", Align::Left),
        ("reason", Align::Left),
    ]);
    let (shown, more) = output::cut(objects, limit);
    for object in shown {
        table.row([
            object.id.to_string(),
            object.operation.clone(),
            object.reason.clone(),
        ]);
    }
    show(&table, more);
}

fn totals(plan: &Plan, style: Style) {
    let totals = plan.totals;
    output::line("");
    output::line(&style.bold(&format!(
        "in all: {} and {} deleted, {} cleaned, {} expired, {}",
        figures::count(totals.deletes, "object"),
        figures::bytes(totals.bytes),
        figures::count(totals.cleans, "mark"),
        figures::count(totals.expires, "reservation"),
        figures::count(totals.commands, "other command"),
    )));
    output::line(&format!(
        "left: {}, {} parked, {} refused",
        figures::count(totals.conflicts, "conflict"),
        totals.parked,
        totals.refused
    ));
    output::line("nothing was written");
}
