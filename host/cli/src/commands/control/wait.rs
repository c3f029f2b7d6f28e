//! What the live nodes do of a revision, and the wait until all of them run it.
//!
//! Nodes are read as JSON: one of another version tells what it knows, and what
//! it does not tell counts as not yet done.

use std::io::IsTerminal as _;
use std::time::Duration;

use aedile_log::{NodeRecord, Reader};
use serde_json::{Value, json};

use crate::commands;
use crate::commands::status::is_gone;
use crate::config::Config;

/// How long a person waits.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long between two looks at the nodes' rows.
const LOOK: Duration = Duration::from_millis(250);
/// Longest wait that can be asked for.
const LONGEST: Duration = Duration::from_secs(3600);

/// How long to wait for the nodes.
pub(super) fn limit(config: &Config) -> anyhow::Result<Duration> {
    let asked = config.duration(crate::settings::WAIT, Duration::ZERO, LONGEST)?;
    Ok(asked.unwrap_or_else(|| {
        if std::io::stdout().is_terminal() {
            PATIENCE
        } else {
            Duration::ZERO
        }
    }))
}

/// How far a node is with a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// It runs, or rests as it should.
    Done(String),
    /// It may come.
    NotYet(String),
    /// It will not come by itself.
    Never(String),
}

/// How far a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OnNode {
    pub(super) node: String,
    pub(super) reached: Reached,
}

impl OnNode {
    pub(super) fn as_json(&self) -> Value {
        let (state, text) = match &self.reached {
            Reached::Done(text) => ("done", text),
            Reached::NotYet(text) => ("waiting", text),
            Reached::Never(text) => ("refused", text),
        };
        json!({"node": self.node, "state": state, "detail": text})
    }
}

/// What a node tells of a plugin.
pub(super) fn plugin<'a>(status: &'a Value, name: &str) -> Option<&'a Value> {
    status
        .get("plugins")?
        .as_array()?
        .iter()
        .find(|plugin| plugin["name"] == name)
}

/// Nodes that run, as far as their rows tell.
pub(super) fn live(nodes: &[NodeRecord], now: i64) -> impl Iterator<Item = &NodeRecord> {
    nodes
        .iter()
        .filter(move |record| !is_gone(record, now) && record.status["role"] != "stopped")
}

/// A node in whose plugin directory a file has this name, and the file.
pub(super) fn taken(nodes: &[NodeRecord], now: i64, name: &str) -> Option<(String, String)> {
    live(nodes, now).find_map(|record| {
        let origin = plugin(&record.status, name)
            .and_then(|plugin| plugin["origin"].as_str())
            .filter(|origin| is_file(origin));
        let problem = || {
            let problems = record.status["problems"].as_array()?;
            problems
                .iter()
                .filter(|problem| problem["plugin"] == name)
                .find_map(|problem| problem["origin"].as_str().filter(|origin| is_file(origin)))
        };
        let file = origin.or_else(problem)?;
        Some((record.node.clone(), file.to_owned()))
    })
}

fn is_file(origin: &str) -> bool {
    origin.ends_with(".wasm")
}

/// How far a node is with a revision; `removed` if it is a removal.
pub(super) fn reached(status: &Value, name: &str, number: u64, removed: bool) -> Reached {
    let told = plugin(status, name);
    let wanted = told.map_or(&Value::Null, |told| &told["wanted"]);
    let Some(seen) = wanted["number"].as_u64() else {
        return match told {
            _ if removed && told.is_none_or(|told| told["revision"].is_null()) => {
                Reached::Done("gone".to_owned())
            }
            _ => Reached::NotYet("has not told of it yet".to_owned()),
        };
    };
    if seen < number {
        return Reached::NotYet(format!("is at revision {seen}"));
    }
    if seen > number {
        return Reached::Done(format!("is at revision {seen} already"));
    }
    let text = |key: &str| wanted[key].as_str().unwrap_or_default().to_owned();
    match wanted["state"].as_str().unwrap_or_default() {
        "running" if told.is_some_and(|told| told["state"] == "disabled") => {
            Reached::Done("disabled".to_owned())
        }
        "running" => Reached::Done("runs it".to_owned()),
        "canary" => Reached::Done("plans it beside the version before".to_owned()),
        "needs-approval" => Reached::Never(format!("waits for approval: {}", text("command"))),
        "refused" => Reached::Never(text("reason")),
        "retrying" => Reached::NotYet(text("reason")),
        state => Reached::NotYet(state.to_owned()),
    }
}

/// Wait until every live node has a revision, one says that it never will, or the
/// time is over. What the nodes say at the end.
pub(super) async fn wait(
    config: &Config,
    name: &str,
    number: u64,
    removed: bool,
    limit: Duration,
) -> anyhow::Result<Vec<OnNode>> {
    let clock = commands::clock();
    let until = clock.boot() + limit;
    let reader: Reader = commands::reader(config, &clock).await?;
    let nodes = loop {
        let now = reader.database_now().await?.0;
        let records = reader.nodes().await?;
        let nodes: Vec<OnNode> = live(&records, now)
            .map(|record| OnNode {
                node: record.node.clone(),
                reached: reached(&record.status, name, number, removed),
            })
            .collect();
        let waiting = nodes
            .iter()
            .any(|node| matches!(node.reached, Reached::NotYet(_)));
        if !waiting || clock.boot() >= until {
            break nodes;
        }
        clock.sleep(LOOK).await;
    };
    reader.close().await;
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(wanted: Value) -> Value {
        json!({"plugins": [
            {"name": "kv", "wanted": {"number": 9, "state": "running"}},
            {"name": "kv-ttl", "state": "ready", "revision": 2, "wanted": wanted},
        ]})
    }

    #[test]
    fn a_revision_has_arrived_only_when_the_node_says_so_of_this_very_number() {
        let of = |wanted: Value| reached(&told(wanted), "kv-ttl", 3, false);
        assert!(matches!(of(Value::Null), Reached::NotYet(_)));
        assert!(matches!(
            of(json!({"number": 2, "state": "running"})),
            Reached::NotYet(_)
        ));
        assert!(matches!(
            of(json!({"number": 3, "state": "fetching"})),
            Reached::NotYet(_)
        ));
        assert!(matches!(
            of(json!({"number": 3, "state": "later-word"})),
            Reached::NotYet(_)
        ));
        assert!(matches!(
            of(json!({"number": 3, "state": "running"})),
            Reached::Done(_)
        ));
        assert!(matches!(
            of(json!({"number": 4, "state": "refused"})),
            Reached::Done(_)
        ));
        let lacking =
            json!({"number": 3, "state": "needs-approval", "command": "aedile plugin grant"});
        assert_eq!(
            of(lacking),
            Reached::Never("waits for approval: aedile plugin grant".to_owned())
        );
        let refused = json!({"number": 3, "state": "refused", "reason": "a flipped byte"});
        assert_eq!(of(refused), Reached::Never("a flipped byte".to_owned()));
        assert!(matches!(
            reached(&json!(null), "kv-ttl", 3, false),
            Reached::NotYet(_)
        ));
    }

    #[test]
    fn a_removal_has_arrived_when_nothing_of_it_is_left() {
        assert!(matches!(
            reached(&told(Value::Null), "kv-ttl", 3, true),
            Reached::NotYet(_)
        ));
        assert!(matches!(
            reached(&json!({"plugins": []}), "kv-ttl", 3, true),
            Reached::Done(_)
        ));
    }
}
