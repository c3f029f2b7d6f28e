//! `aedile plugin deploy` and the other commands that write or read revisions.
//!
//! Each one that writes makes one revision out of the newest: the whole setting
//! as it is to be. Who comes second is told who won, and nothing is lost.

mod carry;
pub(crate) mod changes;
mod deploy;
mod diff;
mod edit;
mod module;
mod run_now;
pub(crate) mod schema;
mod show;
mod wait;

pub(crate) use carry::{export, import};
pub(crate) use deploy::{Unfit, deploy};
pub(crate) use diff::diff;
pub(crate) use edit::{disable, enable, grant, remove, reset, revoke, rollback, set};
pub(crate) use run_now::run;
pub(crate) use show::{deployed, history, show};

use aedile_clock::SharedClock;
use aedile_log::{Log, LogOptions, View};
use aedile_runtime::control::{
    self, Action, Damage, Damaged, ModuleRef, Record, Revision, Written, is_name,
};
use clap::ArgMatches;
use serde_json::{Value, json};

use crate::commands::{self, parked::Refused};
use crate::config::Config;
use crate::exit::Exit;
use crate::output::style::Style;
use crate::output::{self, figures};
use crate::{builtins, settings};

/// Longest name of who acts.
const WHO: usize = 128;
/// Longest reason.
const WHY: usize = 500;

fn refused(text: impl Into<String>) -> anyhow::Error {
    Refused(text.into()).into()
}

/// The plugin that a command is about.
fn name(leaf: &ArgMatches) -> anyhow::Result<&str> {
    let name = leaf.get_one::<String>("name").map_or("", String::as_str);
    if is_name(name) {
        return Ok(name);
    }
    Err(refused(format!(
        "`{}` is no plugin's name: 1 to 64 characters of a-z, 0-9 and `-`, beginning with a letter",
        name.escape_debug()
    )))
}

/// Who does something, and why.
struct By {
    who: String,
    why: String,
}

impl By {
    fn new(config: &Config) -> anyhow::Result<Self> {
        let who = match config.text(settings::WHO) {
            Some(who) => who.to_owned(),
            None => user_at_host(),
        };
        let plain = |text: &str| !text.chars().any(char::is_control);
        if who.trim().is_empty() || who.chars().count() > WHO || !plain(&who) {
            let reason = format!("a name of 1 to {WHO} characters is wanted, on one line");
            return Err(config.wrong(settings::WHO, reason).into());
        }
        let why = config.text(settings::WHY).unwrap_or_default().to_owned();
        if why.chars().count() > WHY || !plain(&why) {
            let reason = format!("at most {WHY} characters are kept, on one line");
            return Err(config.wrong(settings::WHY, reason).into());
        }
        Ok(Self { who, why })
    }
}

fn user_at_host() -> String {
    let uid = nix::unistd::getuid();
    let user = match nix::unistd::User::from_uid(uid) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    };
    let host = nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .unwrap_or_else(|| "?".to_owned());
    format!("{user}@{host}")
}

/// The database, open for one change.
struct Session {
    log: Log,
    clock: SharedClock,
}

impl Session {
    async fn open(config: &Config) -> anyhow::Result<Self> {
        let clock = commands::clock();
        let log = Log::open(&config.meta_url()?, LogOptions::default(), clock.clone()).await?;
        Ok(Self { log, clock })
    }

    fn view(&self) -> std::sync::Arc<View> {
        self.log.view()
    }
}

/// Where the next revision begins.
struct Current {
    /// The number that it follows; 0 if there is none.
    previous: u64,
    /// What is wanted now; none if nothing is, or if it was removed.
    record: Option<Record>,
    /// The removal, if that came last.
    removed: Option<Revision>,
}

/// The newest revision of a plugin, or what a built-in one runs with by itself.
fn current(config: &Config, view: &View, name: &str) -> anyhow::Result<Current> {
    match control::latest(&view.state, name) {
        None => Ok(Current {
            previous: 0,
            record: embedded(config, name)?,
            removed: None,
        }),
        Some(Ok(revision)) if revision.record.removed => Ok(Current {
            previous: revision.number,
            record: embedded(config, name)?,
            removed: Some(revision),
        }),
        Some(Ok(revision)) => Ok(Current {
            previous: revision.number,
            record: Some(revision.record),
            removed: None,
        }),
        Some(Err(damaged)) => Err(unreadable(name, &damaged)),
    }
}

/// A newest revision that cannot be read is not built upon: what it wanted would
/// be lost without anybody's knowing.
fn unreadable(name: &str, damaged: &Damaged) -> anyhow::Error {
    let way = match damaged.damage {
        Damage::Version(_) => "use the version of Aedile that wrote it".to_owned(),
        _ => format!(
            "go back to one that can be read with `aedile plugin rollback {name} --to REVISION`"
        ),
    };
    Unreadable(format!("{damaged}; {way}")).into()
}

/// What the database holds cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unreadable(String);

/// What a built-in plugin runs with while nobody has set anything in the log:
/// the configuration's settings, and the grants of its manifest.
fn embedded(config: &Config, name: &str) -> anyhow::Result<Option<Record>> {
    let Some((_, bytes)) = builtins::modules().find(|(known, _)| *known == name) else {
        return Ok(None);
    };
    if !builtins::present(config, name)? {
        return Ok(None);
    }
    let manifest = module::engine()?.inspect(bytes)?.manifest;
    let set = config.plugin(name);
    let mut record = Record::new(Action::Reset, ModuleRef::Embedded, String::new());
    record.enabled = set.enabled || config.enabled()?.contains(&name);
    record.fenced = set.fenced;
    record.grants = manifest.grants.iter().map(ToString::to_string).collect();
    record.kv_prefixes = set.kv_prefixes;
    changes::take_schedule(&mut record.schedule, &set.schedule);
    if let Value::Object(values) = set.config {
        record.config = values;
    }
    changes::take_limits(&mut record.limits, &set.limits);
    Ok(Some(record))
}

/// What is wanted of a plugin that a change needs to be there.
fn wanted(current: &Current, name: &str) -> anyhow::Result<Record> {
    if let Some(record) = &current.record {
        return Ok(record.clone());
    }
    Err(refused(match &current.removed {
        Some(revision) => format!(
            "`{name}` was removed by {}, with revision {}; deploy it again, or go back with \
             `aedile plugin rollback {name} --to REVISION`",
            revision.record.who, revision.number
        ),
        None => format!(
            "there is no plugin `{name}` in the metadata, and none is built in; `aedile plugin list` \
             shows which there are. A plugin of a node's plugin directory is set up by the file \
             beside it"
        ),
    }))
}

/// What a change came to.
struct Done {
    name: String,
    record: Record,
    written: Written,
    /// For people, after the first line.
    notes: Vec<String>,
    /// For the JSON.
    more: Vec<(&'static str, Value)>,
}

impl Done {
    /// Write the revision.
    async fn write(
        session: &Session,
        name: &str,
        previous: u64,
        record: Record,
    ) -> anyhow::Result<Self> {
        let written = control::write(&session.log, name, previous, record.clone()).await?;
        Ok(Self {
            name: name.to_owned(),
            record,
            written,
            notes: Vec::new(),
            more: Vec::new(),
        })
    }

    /// Tell what became of it, after waiting for the nodes to follow.
    async fn finish(
        mut self,
        config: &Config,
        now: i64,
        limit: std::time::Duration,
    ) -> anyhow::Result<Exit> {
        let number = match self.written {
            Written::Written { number } | Written::Unchanged { number } => number,
            Written::Lost { .. } => 0,
        };
        let mut late = false;
        if number > 0 && !limit.is_zero() {
            let began = commands::clock().boot();
            let removed = self.record.removed;
            let nodes = wait::wait(config, &self.name, number, removed, limit).await?;
            let took = commands::clock().boot().since(began);
            late = nodes
                .iter()
                .any(|node| !matches!(node.reached, wait::Reached::Done(_)));
            self.notes.extend(follow(&nodes, took));
            let nodes: Vec<Value> = nodes.iter().map(wait::OnNode::as_json).collect();
            self.more.push(("nodes", json!(nodes)));
        }
        let exit = self.tell(config, now)?;
        Ok(match exit {
            Exit::Ok if late => Exit::Plugin,
            exit => exit,
        })
    }

    /// Tell what became of it.
    fn tell(&self, config: &Config, now: i64) -> anyhow::Result<Exit> {
        let json = config.switch(settings::JSON)?;
        if json {
            output::json(&self.as_json())?;
        }
        let name = &self.name;
        match &self.written {
            Written::Lost { winner } => {
                if json {
                    return Ok(Exit::Lost);
                }
                Err(Lost(lost(name, winner, now)).into())
            }
            Written::Unchanged { number } => {
                if !json {
                    output::line(&match number {
                        0 => format!("unchanged: `{name}` has no revision"),
                        number => format!("unchanged: revision {number} of {name} says the same"),
                    });
                    self.notes.iter().for_each(|note| output::line(note));
                }
                Ok(Exit::Ok)
            }
            Written::Written { number } => {
                if !json {
                    output::line(&format!(
                        "{} {}: revision {number}",
                        Style::stdout().good(&done(self.record.action)),
                        what(name, &self.record),
                    ));
                    self.notes.iter().for_each(|note| output::line(note));
                }
                Ok(Exit::Ok)
            }
        }
    }

    fn as_json(&self) -> Value {
        let mut value = match &self.written {
            Written::Written { number } => json!({"outcome": "written", "revision": number}),
            Written::Unchanged { number } => json!({"outcome": "unchanged", "revision": number}),
            Written::Lost { winner } => match &**winner {
                Ok(winner) => json!({
                    "outcome": "lost",
                    "revision": winner.number,
                    "winner": winner.record,
                }),
                Err(damaged) => json!({
                    "outcome": "lost",
                    "revision": damaged.number,
                    "winner": damaged.to_string(),
                }),
            },
        };
        value["plugin"] = json!(self.name);
        value["record"] = json!(self.record);
        for (key, more) in &self.more {
            value[*key] = more.clone();
        }
        value
    }
}

/// What the nodes say, for people.
fn follow(nodes: &[wait::OnNode], took: std::time::Duration) -> Vec<String> {
    if nodes.is_empty() {
        return vec!["  no node is up to follow it; the next one that starts does".to_owned()];
    }
    let style = Style::stdout();
    let mut lines = Vec::new();
    let there: Vec<&str> = nodes
        .iter()
        .filter(|node| matches!(node.reached, wait::Reached::Done(_)))
        .map(|node| node.node.as_str())
        .collect();
    if !there.is_empty() {
        lines.push(format!(
            "  followed by {} after {}",
            there.join(", "),
            figures::span(took)
        ));
    }
    lines.extend(nodes.iter().filter_map(|node| match &node.reached {
        wait::Reached::Done(_) => None,
        wait::Reached::NotYet(text) => {
            Some(style.warn(&format!("  not yet by {}: {text}", node.node)))
        }
        wait::Reached::Never(text) => Some(style.bad(&format!("  not by {}: {text}", node.node))),
    }));
    lines
}

/// Somebody else was first.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Lost(String);

fn lost(name: &str, winner: &Result<Revision, Damaged>, now: i64) -> String {
    match winner {
        Ok(winner) => {
            let record = &winner.record;
            let why = if record.why.is_empty() {
                String::new()
            } else {
                format!(" (\"{}\")", record.why)
            };
            format!(
                "somebody else changed `{name}` first: revision {} by {}, {}: {} {}{why}. Nothing was \
                 written; `aedile plugin diff {name}` shows what changed. Then try again",
                winner.number,
                record.who,
                figures::ago(record.at_ms, now),
                record.action,
                what(name, record),
            )
        }
        Err(damaged) => {
            format!("somebody else changed `{name}` first, and {damaged}. Nothing was written")
        }
    }
}

/// A plugin with its version and digest, for people.
fn what(name: &str, record: &Record) -> String {
    match &record.module {
        ModuleRef::Embedded => format!("{name} (built in)"),
        ModuleRef::Stored(stored) => format!(
            "{name} {} ({})",
            record.version,
            figures::short(&stored.digest)
        ),
    }
}

/// What was done.
fn done(action: Action) -> String {
    match action {
        Action::Set => "set".to_owned(),
        Action::Grant => "granted to".to_owned(),
        Action::Revoke => "revoked from".to_owned(),
        Action::Rollback => "rolled back to".to_owned(),
        Action::Reset => "reset".to_owned(),
        Action::Deploy => "deployed".to_owned(),
        Action::Enable => "enabled".to_owned(),
        Action::Disable => "disabled".to_owned(),
        Action::Remove => "removed".to_owned(),
        other => format!("{other}:"),
    }
}

#[cfg(test)]
mod tests {
    use aedile_runtime::control::StoredModule;

    use super::*;

    #[test]
    fn the_loser_is_told_who_won_what_they_did_and_what_to_do() {
        let module = ModuleRef::Stored(StoredModule {
            digest: "ab".repeat(32),
            size: 7,
            signature: None,
            source: None,
        });
        let mut record = Record::new(Action::Deploy, module, "1.2.0".to_owned());
        record = record.by(Action::Deploy, "ann@rack-4", "OPS-7");
        record.at_ms = 1_000;
        let winner = Ok(Revision { number: 4, record });
        let text = lost("kv-ttl", &winner, 4_000);
        for part in [
            "somebody else changed `kv-ttl` first: revision 4 by ann@rack-4, 3.0 s ago",
            "deploy kv-ttl 1.2.0 (abababababab",
            "(\"OPS-7\")",
            "Nothing was written; `aedile plugin diff kv-ttl`",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn what_the_nodes_say_is_told_for_each_that_does_not_follow() {
        let node = |node: &str, reached| wait::OnNode {
            node: node.to_owned(),
            reached,
        };
        let nodes = [
            node("a", wait::Reached::Done("runs it".to_owned())),
            node("b", wait::Reached::NotYet("fetching".to_owned())),
            node("c", wait::Reached::Never("a flipped byte".to_owned())),
        ];
        let lines = follow(&nodes, std::time::Duration::from_millis(700)).join("\n");
        for part in [
            "followed by a after 700 ms",
            "not yet by b: fetching",
            "not by c: a flipped byte",
        ] {
            assert!(lines.contains(part), "{part}: {lines}");
        }
        assert!(follow(&[], std::time::Duration::ZERO)[0].contains("no node is up"));
    }
}
