//! `aedile plugin show` and `history`, and the deployed part of `list`.

use aedile_log::NodeRecord;
use aedile_runtime::control::{self, Damaged, ModuleRef, Record, Revision};
use aedile_state::State;
use clap::ArgMatches;
use serde_json::{Value, json};

use super::{embedded, name, refused, wait, what};
use crate::commands::{self, LISTED};
use crate::config::Config;
use crate::exit::Exit;
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use crate::output::{self, figures};
use crate::settings;

/// Show one plugin.
pub(crate) async fn show(config: &Config, leaf: &ArgMatches) -> anyhow::Result<Exit> {
    let name = name(leaf)?;
    let reader = commands::reader(config, &commands::clock()).await?;
    let view = reader.view().await?;
    let now = reader.database_now().await?.0;
    let nodes = reader.nodes().await?;
    reader.close().await;
    let newest = control::latest(&view.state, name);
    let by_itself = embedded(config, name)?;
    let on_nodes: Vec<(&NodeRecord, &Value)> = wait::live(&nodes, now)
        .filter_map(|record| Some((record, wait::plugin(&record.status, name)?)))
        .collect();
    if newest.is_none() && by_itself.is_none() && on_nodes.is_empty() {
        return Err(refused(format!(
            "there is no plugin `{name}`; `aedile plugin list` shows which there are"
        )));
    }
    if config.switch(settings::JSON)? {
        let on_nodes: Vec<Value> = on_nodes
            .iter()
            .map(|(record, told)| json!({"node": record.node, "seen": record.seen.0, "plugin": told}))
            .collect();
        output::json(&json!({
            "plugin": name,
            "now": now,
            "newest": newest.as_ref().map(entry),
            "built_in": by_itself.is_some(),
            "nodes": on_nodes,
        }))?;
    } else {
        print(name, newest.as_ref(), by_itself.as_ref(), now);
        print_nodes(&on_nodes, now);
    }
    Ok(match newest {
        Some(Err(_)) => Exit::Content,
        _ => Exit::Ok,
    })
}

fn entry(found: &Result<Revision, Damaged>) -> Value {
    match found {
        Ok(revision) => {
            let mut value = json!(revision.record);
            value["revision"] = json!(revision.number);
            value
        }
        Err(damaged) => json!({
            "revision": damaged.number,
            "key": damaged.key,
            "damaged": damaged.damage.to_string(),
        }),
    }
}

fn print(
    name: &str,
    newest: Option<&Result<Revision, Damaged>>,
    by_itself: Option<&Record>,
    now: i64,
) {
    let style = Style::stdout();
    let record = match newest {
        Some(Ok(revision)) => {
            let record = &revision.record;
            output::line(&style.bold(&what(name, record)));
            let of = record.of.map(|of| format!(" of revision {of}"));
            output::line(&format!(
                "revision  {}: {}{} by {}, {}",
                revision.number,
                record.action,
                of.unwrap_or_default(),
                record.who,
                figures::ago(record.at_ms, now)
            ));
            if !record.why.is_empty() {
                output::line(&format!("why       {}", record.why));
            }
            if record.removed {
                output::line(&style.warn("removed   no node runs it, unless it is built in"));
                return;
            }
            record
        }
        Some(Err(damaged)) => {
            output::line(&style.bold(name));
            output::line(&style.bad(&format!(
                "{damaged}. It is left as it is, and what ran before it goes on"
            )));
            return;
        }
        None => match by_itself {
            Some(record) => {
                output::line(&style.bold(&format!("{name} (built in)")));
                output::line("revision  none: it runs as each node's own configuration says");
                record
            }
            None => {
                output::line(&style.bold(name));
                output::line("revision  none: it comes from a node's plugin directory");
                return;
            }
        },
    };
    setting(record, style);
}

fn setting(record: &Record, style: Style) {
    if let ModuleRef::Stored(stored) = &record.module {
        output::line(&format!(
            "module    {}, {}",
            stored.digest,
            figures::bytes(stored.size)
        ));
        if let Some(source) = &stored.source {
            output::line(&format!("source    {source}"));
        }
        let signed = if stored.signature.is_some() {
            "yes"
        } else {
            "no"
        };
        output::line(&format!("signed    {signed}"));
    }
    let enabled = if record.enabled {
        "yes".to_owned()
    } else {
        style.warn("no")
    };
    output::line(&format!("enabled   {enabled}"));
    if record.fenced {
        output::line("fenced    yes");
    }
    output::line(&format!("grants    {}", record.grants.join(", ")));
    if !record.kv_prefixes.is_empty() {
        output::line(&format!("keys      {}", record.kv_prefixes.join(", ")));
    }
    output::line(&format!("schedule  {}", schedule(record)));
    if record.canary > 0 {
        let ticks = figures::count(u64::from(record.canary), "tick");
        output::line(&format!("canary    for {ticks}"));
    }
    if let Ok(Value::Object(limits)) = serde_json::to_value(&record.limits) {
        for (limit, value) in limits {
            output::line(&format!("limit     {limit} = {value}"));
        }
    }
    let config = Value::Object(record.config.clone());
    output::line(&format!("config    {config}"));
}

fn schedule(record: &Record) -> String {
    let time = |millis: u64| {
        humantime::format_duration(std::time::Duration::from_millis(millis)).to_string()
    };
    let schedule = &record.schedule;
    let mut text = match (schedule.interval_ms, &schedule.cron, schedule.on_demand) {
        (Some(interval), ..) => format!("every {}", time(interval)),
        (_, Some(cron), _) => format!("at {cron} (UTC)"),
        (_, _, true) => "on demand".to_owned(),
        _ => "as its manifest says".to_owned(),
    };
    if let Some(jitter) = schedule.jitter_ms {
        text.push_str(&format!(", and up to {} more", time(jitter)));
    }
    text
}

fn print_nodes(on_nodes: &[(&NodeRecord, &Value)], now: i64) {
    output::line("");
    output::line(&Style::stdout().bold("on the nodes"));
    if on_nodes.is_empty() {
        output::line("  no live node tells of it");
        return;
    }
    let mut table = Table::new(&[
        ("node", Align::Left),
        ("seen", Align::Left),
        ("runs", Align::Left),
        ("revision", Align::Right),
        ("state", Align::Left),
        ("wanted", Align::Left),
    ]);
    let mut details = Vec::new();
    for (record, told) in on_nodes {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let wanted = &told["wanted"];
        let number = |value: &Value| value.as_u64().map_or("-".to_owned(), |n| n.to_string());
        let digest = text(&told["digest"]);
        table.row([
            record.node.clone(),
            figures::ago(record.seen.0, now),
            format!("{} ({})", text(&told["version"]), figures::short(&digest)),
            number(&told["revision"]),
            text(&told["state"]),
            match wanted["state"].as_str() {
                Some("canary") => format!(
                    "revision {}: canary, {} of {} ticks, {} differ",
                    number(&wanted["number"]),
                    number(&wanted["done"]),
                    number(&wanted["of"]),
                    number(&wanted["differing"]),
                ),
                Some(state) => format!("revision {}: {state}", number(&wanted["number"])),
                None => "-".to_owned(),
            },
        ]);
        for (what, value) in [
            ("", &wanted["reason"]),
            ("to grant it: ", &wanted["command"]),
            ("differs: ", &wanted["last"]),
            ("last failure: ", &told["error"]),
            ("rolled back: ", &told["rolled_back_from"]["why"]),
        ] {
            if let Some(reason) = value.as_str() {
                details.push(format!("  {}: {what}{reason}", record.node));
            }
        }
    }
    for line in table.lines() {
        output::line(&format!("  {line}"));
    }
    details.iter().for_each(|line| output::line(line));
}

/// List the revisions of a plugin.
pub(crate) async fn history(config: &Config, leaf: &ArgMatches) -> anyhow::Result<Exit> {
    let name = name(leaf)?;
    let limit = (!config.switch(settings::EVERY)?).then_some(LISTED);
    let reader = commands::reader(config, &commands::clock()).await?;
    let view = reader.view().await?;
    let now = reader.database_now().await?.0;
    reader.close().await;
    let mut all = control::history(&view.state, name);
    if all.is_empty() {
        return Err(refused(format!(
            "`{name}` has no history: it was never deployed. `aedile plugin list` shows what runs"
        )));
    }
    all.reverse();
    let damaged = all.iter().any(Result::is_err);
    if config.switch(settings::JSON)? {
        let revisions: Vec<Value> = all.iter().map(entry).collect();
        output::json(&json!({"plugin": name, "now": now, "revisions": revisions}))?;
    } else {
        let mut table = Table::new(&[
            ("revision", Align::Right),
            ("when", Align::Left),
            ("action", Align::Left),
            ("version", Align::Left),
            ("digest", Align::Left),
            ("who", Align::Left),
            ("why", Align::Left),
        ]);
        let (shown, more) = output::cut(&all, limit);
        for found in shown {
            table.row(row(found, now));
        }
        table.lines().iter().for_each(|line| output::line(line));
        more.iter().for_each(|line| output::line(line));
    }
    Ok(if damaged { Exit::Content } else { Exit::Ok })
}

fn row(found: &Result<Revision, Damaged>, now: i64) -> [String; 7] {
    match found {
        Ok(Revision { number, record }) => [
            number.to_string(),
            figures::ago(record.at_ms, now),
            match record.of {
                Some(of) => format!("{} ({of})", record.action),
                None => record.action.to_string(),
            },
            record.version.clone(),
            digest(record),
            record.who.clone(),
            record.why.clone(),
        ],
        Err(damaged) => [
            damaged
                .number
                .map_or("?".to_owned(), |number| number.to_string()),
            String::new(),
            "unreadable".to_owned(),
            String::new(),
            String::new(),
            String::new(),
            damaged.damage.to_string(),
        ],
    }
}

fn digest(record: &Record) -> String {
    match record.module.digest() {
        Some(digest) => figures::short(digest).to_owned(),
        None => "built in".to_owned(),
    }
}

/// The newest revision of every plugin that has one: for people, and as JSON.
pub(crate) fn deployed(state: &State, now: i64) -> (Option<Table>, Value) {
    let all: Vec<(String, Result<Revision, Damaged>)> = control::names(state)
        .into_iter()
        .filter_map(|name| {
            let newest = control::latest(state, &name)?;
            Some((name, newest))
        })
        .collect();
    let json = all
        .iter()
        .map(|(name, newest)| {
            let mut value = entry(newest);
            value["plugin"] = json!(name);
            value
        })
        .collect();
    if all.is_empty() {
        return (None, json);
    }
    let mut table = Table::new(&[
        ("plugin", Align::Left),
        ("revision", Align::Right),
        ("version", Align::Left),
        ("digest", Align::Left),
        ("is to", Align::Left),
        ("last", Align::Left),
        ("who", Align::Left),
        ("when", Align::Left),
    ]);
    for (name, newest) in &all {
        table.row(match newest {
            Ok(Revision { number, record }) => [
                name.clone(),
                number.to_string(),
                record.version.clone(),
                digest(record),
                match (record.removed, record.enabled) {
                    (true, _) => "be gone",
                    (_, true) => "run",
                    (_, false) => "rest",
                }
                .to_owned(),
                record.action.to_string(),
                record.who.clone(),
                figures::ago(record.at_ms, now),
            ],
            Err(damaged) => {
                let mut cells = std::array::from_fn(|_| String::new());
                cells[0].clone_from(name);
                cells[5] = format!("unreadable: {}", damaged.damage);
                cells
            }
        });
    }
    (Some(table), json)
}
