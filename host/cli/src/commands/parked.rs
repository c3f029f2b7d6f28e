//! `aedile parked`: what cannot be deleted, and what is to become of it.
//!
//! Listing reads. The other two leave a request in the metadata; the node that
//! leads carries it out, or the next one that does.

use std::collections::BTreeSet;
use std::time::Duration;

use aedile_clock::BootInstant;
use aedile_log::{Answer, Log, LogOptions};
use aedile_runtime::parked::{Asked, Parked, ParkedObject, Request};
use aedile_state::{ObjectId, Operation, State};
use clap::ArgMatches;
use serde_json::json;

use crate::commands::{self, LISTED};
use crate::config::Config;
use crate::exit::Exit;
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use crate::output::{self, figures};
use crate::settings;

/// A mistake on the command line, told with what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(pub(crate) String);

/// List the parked objects.
pub(crate) async fn list(config: &Config) -> anyhow::Result<Exit> {
    let json = config.switch(settings::JSON)?;
    let limit = (!config.switch(settings::EVERY)?).then_some(LISTED);
    let reader = commands::reader(config, &commands::clock()).await?;
    let view = reader.view().await?;
    let now = reader.database_now().await?.0;
    reader.close().await;
    let parked = Parked::read(&view.state);
    if json {
        output::json(&as_json(&view.state, &parked))?;
    } else {
        print(&view.state, &parked, now, limit);
    }
    Ok(if parked.problems.is_empty() {
        Exit::Ok
    } else {
        Exit::Content
    })
}

fn operation(state: &State, id: u64) -> &'static str {
    match state.mark(ObjectId(id)) {
        Some((_, Operation::Delete)) => "delete",
        Some((_, Operation::DeepDelete)) => "deep-delete",
        Some((_, Operation::KeepData)) => "keep-data",
        None => "none",
    }
}

fn as_json(state: &State, parked: &Parked) -> serde_json::Value {
    let objects: Vec<_> = parked
        .objects()
        .map(|object| {
            json!({
                "id": object.id,
                "key": aedile_storage::object_key(object.id),
                "operation": operation(state, object.id),
                "reason": object.reason,
                "since": object.since,
                "tries": object.tries,
            })
        })
        .collect();
    json!({
        "parked": objects,
        "requests": parked.requests().collect::<Vec<_>>(),
        "problems": parked.problems,
    })
}

fn print(state: &State, parked: &Parked, now: i64, limit: Option<usize>) {
    let style = Style::stdout();
    let objects: Vec<&ParkedObject> = parked.objects().collect();
    output::line(&format!(
        "{} parked: not deleted, and not tried again until you ask for it",
        figures::count(objects.len() as u64, "object")
    ));
    let mut table = Table::new(&[
        ("object", Align::Right),
        ("mark", Align::Left),
        ("since", Align::Left),
        ("tries", Align::Right),
        ("reason", Align::Left),
    ]);
    let (shown, more) = output::cut(&objects, limit);
    for object in shown {
        table.row([
            object.id.to_string(),
            operation(state, object.id).to_owned(),
            figures::ago(object.since, now),
            object.tries.to_string(),
            object.reason.clone(),
        ]);
    }
    if !objects.is_empty() {
        for line in table.lines() {
            output::line(&format!("  {line}"));
        }
    }
    if let Some(more) = more {
        output::line(&format!("  {more}"));
    }
    for request in parked.requests() {
        let what = match &request.asked {
            Asked::Retry { objects } => format!("retry {}", named(objects)),
            Asked::RetryAll => "retry all of them".to_owned(),
            Asked::Forget { objects } => format!("forget {}", named(objects)),
        };
        output::line(&format!(
            "asked by {} {}, and waiting for a node that leads: {what}",
            request.by,
            figures::ago(request.at, now)
        ));
    }
    for problem in &parked.problems {
        output::line(&style.bad(&format!("the key `{}`: {}", problem.key, problem.text)));
    }
}

fn named(ids: &[u64]) -> String {
    let (shown, _) = output::cut(ids, Some(LISTED));
    let mut text = shown
        .iter()
        .map(u64::to_string)
        .collect::<Vec<_>>()
        .join(" ");
    if shown.len() < ids.len() {
        text.push_str(&format!(" and {} more", ids.len() - shown.len()));
    }
    text
}

/// The ids on the command line.
fn ids(leaf: &ArgMatches) -> Vec<u64> {
    let ids: BTreeSet<u64> = leaf.get_many("id").into_iter().flatten().copied().collect();
    ids.into_iter().collect()
}

/// Have objects tried again.
pub(crate) async fn retry(config: &Config, leaf: &ArgMatches) -> anyhow::Result<Exit> {
    let ids = ids(leaf);
    let all = config.switch(settings::EVERY)?;
    if all != ids.is_empty() {
        let text = "name the objects to try again, or all of them with --all";
        return Err(Refused(text.to_owned()).into());
    }
    let parked = look(config).await?;
    if all {
        let count = parked.objects().count();
        if count == 0 {
            output::line("nothing is parked");
            return Ok(Exit::Ok);
        }
        return leave(config, Asked::RetryAll, count).await;
    }
    check(&parked, &ids)?;
    let count = ids.len();
    leave(config, Asked::Retry { objects: ids }, count).await
}

/// Have the marks of objects dropped although their bytes stay.
pub(crate) async fn forget(config: &Config, leaf: &ArgMatches) -> anyhow::Result<Exit> {
    let ids = ids(leaf);
    let parked = look(config).await?;
    check(&parked, &ids)?;
    let (shown, _) = output::cut(&ids, Some(LISTED));
    let mut stays: Vec<String> = shown
        .iter()
        .map(|&id| format!("  {}", aedile_storage::object_key(id)))
        .collect();
    if shown.len() < ids.len() {
        stays.push(format!("  … and {} more", ids.len() - shown.len()));
    }
    let stays = stays.join("\n");
    if !config.switch(settings::LEAVE_BYTES)? {
        return Err(Refused(format!(
            "the catalog would forget these objects, and their bytes would stay in storage for \
             good unless the orphan sweep or you remove them, with all that a composite among \
             them links:\n{stays}\nIf that is what you want, say so with --leave-bytes"
        ))
        .into());
    }
    output::line(&format!("these stay in storage:\n{stays}"));
    let count = ids.len();
    leave(config, Asked::Forget { objects: ids }, count).await
}

async fn look(config: &Config) -> anyhow::Result<Parked> {
    let reader = commands::reader(config, &commands::clock()).await?;
    let view = reader.view().await?;
    reader.close().await;
    Ok(Parked::read(&view.state))
}

/// Only what is parked can be asked for: anything else is a slip.
fn check(parked: &Parked, ids: &[u64]) -> Result<(), Refused> {
    let here: BTreeSet<u64> = parked.objects().map(|object| object.id).collect();
    let missing: Vec<u64> = ids
        .iter()
        .copied()
        .filter(|id| !here.contains(id))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Refused(format!(
        "not parked: {}; `aedile parked list` shows what is. Nothing was asked for",
        named(&missing)
    )))
}

/// Leave a request for the node that leads.
async fn leave(config: &Config, asked: Asked, count: usize) -> anyhow::Result<Exit> {
    let clock = commands::clock();
    let log = Log::open(&config.meta_url()?, LogOptions::default(), clock.clone()).await?;
    let proposed = async {
        let at = log.database_now().await?.0;
        let request = Request::new(asked, config.node()?, at);
        let boot = clock.boot().since(BootInstant::from_boot(Duration::ZERO));
        let nonce = u64::from(std::process::id()) << 32 | u64::from(boot.subsec_nanos());
        anyhow::Ok(log.propose(vec![request.command(nonce)]).await?)
    }
    .await;
    log.close().await;
    match proposed?.first() {
        Some(Answer::Applied(_)) => {}
        _ => anyhow::bail!(
            "it is not known whether the request was written; `aedile parked list` shows it if it was"
        ),
    }
    output::line(&format!(
        "asked for {}: the node that leads does it within seconds, or the next one that does",
        figures::count(count as u64, "object")
    ));
    Ok(Exit::Ok)
}
