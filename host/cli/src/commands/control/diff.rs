//! `aedile plugin diff`: in what two revisions differ.

use std::collections::BTreeMap;

use aedile_runtime::control::{self, Record, Revision};
use aedile_state::State;
use clap::ArgMatches;
use serde_json::{Value, json};

use super::{name, refused, unreadable};
use crate::commands;
use crate::config::Config;
use crate::exit::Exit;
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use crate::output::{self, figures};
use crate::settings;

/// Keys that say who and when, and nothing about what runs.
const ABOUT: [&str; 5] = ["action", "who", "why", "at_ms", "of"];

/// Show in what two revisions differ.
pub(crate) async fn diff(config: &Config, leaf: &ArgMatches) -> anyhow::Result<Exit> {
    let name = name(leaf)?;
    let reader = commands::reader(config, &commands::clock()).await?;
    let view = reader.view().await?;
    reader.close().await;
    let state = &view.state;
    let newest = match control::latest(state, name) {
        None => return Err(refused(format!("`{name}` was never deployed"))),
        Some(Ok(revision)) => revision.number,
        Some(Err(damaged)) => damaged.number.unwrap_or_default(),
    };
    let other = leaf.get_one("other").copied().unwrap_or(newest);
    let one = leaf.get_one("one").copied();
    let one = one.unwrap_or_else(|| other.saturating_sub(1));
    // There is nothing before the first.
    let one = match one {
        0 => None,
        number => Some(find(state, name, number, newest)?),
    };
    let other = find(state, name, other, newest)?;
    let before = one.as_ref().map(|revision| &revision.record);
    if config.switch(settings::JSON)? {
        let changes: Vec<Value> = changes(before, &other.record)
            .into_iter()
            .map(|(key, before, after)| json!({"key": key, "before": before, "after": after}))
            .collect();
        output::json(&json!({
            "plugin": name,
            "a": one.as_ref().map(|revision| revision.number),
            "b": other.number,
            "changes": changes,
        }))?;
        return Ok(Exit::Ok);
    }
    let now = other.record.at_ms;
    output::line(&Style::stdout().bold(&match &one {
        Some(one) => format!("{name}: revision {} against {}", one.number, other.number),
        None => format!("{name}: revision {}, the first", other.number),
    }));
    output::line(&format!(
        "{} by {}, {}",
        other.record.action,
        other.record.who,
        figures::time(now)
    ));
    print(before, &other.record);
    Ok(Exit::Ok)
}

fn find(state: &State, name: &str, number: u64, newest: u64) -> anyhow::Result<Revision> {
    match control::revision(state, name, number) {
        Some(found) => found.map_err(|damaged| unreadable(name, &damaged)),
        None => Err(refused(format!(
            "`{name}` has no revision {number}; it has 1 to {newest}"
        ))),
    }
}

/// Print what differs.
pub(super) fn print(before: Option<&Record>, after: &Record) {
    let changes = changes(before, after);
    if changes.is_empty() {
        output::line("  both want the same");
        return;
    }
    let mut table = Table::new(&[
        ("setting", Align::Left),
        ("before", Align::Left),
        ("after", Align::Left),
    ]);
    for (key, before, after) in changes {
        table.row([key, shown(&before), shown(&after)]);
    }
    for line in table.lines() {
        output::line(&format!("  {line}"));
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.len() == 64 => figures::short(text).to_owned(),
        Value::String(text) => text.escape_debug().to_string(),
        other => other.to_string(),
    }
}

/// Every setting that differs, by its path, with both values.
pub(super) fn changes(before: Option<&Record>, after: &Record) -> Vec<(String, Value, Value)> {
    let (before, after) = (before.map(flat).unwrap_or_default(), flat(after));
    let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
    keys.sort();
    keys.dedup();
    let of =
        |map: &BTreeMap<String, Value>, key: &String| map.get(key).cloned().unwrap_or(Value::Null);
    keys.into_iter()
        .map(|key| (key.clone(), of(&before, key), of(&after, key)))
        .filter(|(_, before, after)| before != after)
        .collect()
}

/// A record's settings by path; a list is one value.
fn flat(record: &Record) -> BTreeMap<String, Value> {
    let mut map = BTreeMap::new();
    if let Ok(Value::Object(fields)) = serde_json::to_value(record) {
        for (key, value) in fields {
            if !ABOUT.contains(&key.as_str()) {
                walk(key, value, &mut map);
            }
        }
    }
    map
}

fn walk(path: String, value: Value, map: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                walk(format!("{path}.{key}"), value, map);
            }
        }
        Value::Null => {}
        other => {
            map.insert(path, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use aedile_runtime::control::{Action, ModuleRef};

    use super::*;

    #[test]
    fn only_what_differs_is_told_with_its_path() {
        let one = Record::new(Action::Deploy, ModuleRef::Embedded, "1.0.0".to_owned());
        let mut other = one.clone().by(Action::Set, "bob", "why");
        assert_eq!(changes(Some(&one), &other), []);
        other
            .config
            .insert("rules".to_owned(), json!({"deep": [1]}));
        other.limits.memory = Some(5);
        other.grants.push("storage.head".to_owned());
        let keys: Vec<String> = changes(Some(&one), &other)
            .into_iter()
            .map(|(key, ..)| key)
            .collect();
        assert_eq!(keys, ["config.rules.deep", "grants", "limits.memory"]);
        assert!(
            changes(None, &one)
                .iter()
                .all(|(_, before, _)| before.is_null())
        );
    }
}
