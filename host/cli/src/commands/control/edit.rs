//! The changes that need no new module: each makes one revision out of the
//! newest.

use aedile_engine::Grant;
use aedile_log::View;
use aedile_runtime::control::{self, Action, ModuleRef, Record, check_prefix};
use clap::ArgMatches;
use serde_json::json;

use super::{By, Current, Done, Session, changes, current, diff, name, refused, wait, wanted};
use crate::config::Config;
use crate::exit::Exit;
use crate::output::style::Style;
use crate::{builtins, output, settings};

/// How a prefix is written among grants.
const PREFIX: &str = "kv-prefix=";

/// Make the next revision, write it, tell what became of it.
async fn change(
    config: &Config,
    leaf: &ArgMatches,
    make: impl FnOnce(&View, &Current, &str) -> anyhow::Result<(Record, Vec<String>)>,
) -> anyhow::Result<Exit> {
    let name = name(leaf)?;
    let by = By::new(config)?;
    let wait = wait::limit(config)?;
    let session = Session::open(config).await?;
    let written = async {
        let view = session.view();
        let current = current(config, &view, name)?;
        let (record, notes) = make(&view, &current, name)?;
        let action = record.action;
        let record = record.by(action, &by.who, &by.why);
        let mut done = Done::write(&session, name, current.previous, record).await?;
        done.notes = notes;
        anyhow::Ok((done, session.log.database_now().await?.0))
    }
    .await;
    session.log.close().await;
    let (done, now) = written?;
    done.finish(config, now, wait).await
}

/// Let a plugin run.
pub(crate) async fn enable(config: &Config, leaf: &ArgMatches) -> anyhow::Result<Exit> {
    change(config, leaf, |_, current, name| {
        let record = Record {
            action: Action::Enable,
            enabled: true,
            ..wanted(current, name)?
        };
        Ok((record, Vec::new()))
    })
    .await
}

/// Let a plugin rest.
pub(crate) async fn disable(config: &Config, leaf: &ArgMatches) -> anyhow::Result<Exit> {
    change(config, leaf, |_, current, name| {
        let record = Record {
            action: Action::Disable,
            enabled: false,
            ..wanted(current, name)?
        };
        Ok((record, Vec::new()))
    })
    .await
}

/// What the arguments name: grants and prefixes.
fn named(leaf: &ArgMatches) -> anyhow::Result<(Vec<Grant>, Vec<String>)> {
    let (mut grants, mut prefixes) = (Vec::new(), Vec::new());
    for text in leaf.get_many::<String>("grants").into_iter().flatten() {
        match text.strip_prefix(PREFIX) {
            Some(prefix) => prefixes.push(prefix.to_owned()),
            None => grants.push(changes::grant(text)?),
        }
    }
    Ok((grants, prefixes))
}

/// Give a plugin grants.
pub(crate) async fn grant(config: &Config, leaf: &ArgMatches) -> anyhow::Result<Exit> {
    let (grants, prefixes) = named(leaf)?;
    for prefix in &prefixes {
        check_prefix(prefix).map_err(refused)?;
    }
    change(config, leaf, move |_, current, name| {
        let mut record = Record {
            action: Action::Grant,
            ..wanted(current, name)?
        };
        let mut notes = Vec::new();
        for grant in grants {
            if grant.destructive() && !record.grants.contains(&grant.to_string()) {
                notes.push(destructive(grant));
            }
            changes::add(&mut record.grants, grant.to_string());
        }
        for prefix in prefixes {
            changes::add(&mut record.kv_prefixes, prefix);
        }
        Ok((record, notes))
    })
    .await
}

/// What an operator should know who gives a destructive grant.
pub(super) fn destructive(grant: Grant) -> String {
    Style::stdout().warn(&format!(
        "  {grant} is destructive: it can take live data out of the catalog"
    ))
}

/// Take grants from a plugin.
pub(crate) async fn revoke(config: &Config, leaf: &ArgMatches) -> anyhow::Result<Exit> {
    let (grants, prefixes) = named(leaf)?;
    change(config, leaf, move |_, current, name| {
        let mut record = Record {
            action: Action::Revoke,
            ..wanted(current, name)?
        };
        let taken: Vec<String> = grants.iter().map(Grant::to_string).collect();
        record.grants.retain(|grant| !taken.contains(grant));
        record.kv_prefixes.retain(|known| !prefixes.contains(known));
        Ok((record, Vec::new()))
    })
    .await
}

/// Let a built-in plugin run the module of its binary again.
pub(crate) async fn reset(config: &Config, leaf: &ArgMatches) -> anyhow::Result<Exit> {
    change(config, leaf, |_, current, name| {
        let manifest = builtins::modules()
            .find(|(known, _)| *known == name)
            .map(|(_, bytes)| {
                super::module::engine()?
                    .inspect(bytes)
                    .map_err(anyhow::Error::from)
            })
            .transpose()?
            .map(|found| found.manifest);
        let Some(manifest) = manifest else {
            return Err(refused(format!(
                "`{name}` is not built in, so there is nothing to reset it to; built in are {}. \
                 `aedile plugin rollback {name}` goes back to an earlier module, `aedile plugin \
                 remove {name}` takes it off",
                builtins::names().collect::<Vec<_>>().join(", ")
            )));
        };
        let mut record = Record {
            action: Action::Reset,
            module: ModuleRef::Embedded,
            version: String::new(),
            canary: 0,
            ..wanted(current, name)?
        };
        // What is built in needs no approval.
        for grant in manifest.grants {
            changes::add(&mut record.grants, grant.to_string());
        }
        Ok((record, Vec::new()))
    })
    .await
}

/// Take a plugin off every node.
pub(crate) async fn remove(config: &Config, leaf: &ArgMatches) -> anyhow::Result<Exit> {
    change(config, leaf, |_, current, name| {
        if current.previous == 0 {
            return Err(refused(format!(
                "`{name}` was never deployed, so there is nothing to remove; `aedile plugin list` \
                 shows what runs. A plugin of a node's plugin directory goes with its file, and a \
                 built-in one is stopped by `aedile plugin disable`"
            )));
        }
        let record = match &current.removed {
            Some(removal) => removal.record.clone(),
            None => wanted(current, name)?,
        };
        let mut notes = Vec::new();
        if builtins::names().any(|known| known == name) {
            notes.push(format!(
                "  {name} is built in: it runs from each node's binary, as the node's own \
                 configuration says"
            ));
        }
        let record = Record {
            action: Action::Remove,
            removed: true,
            canary: 0,
            ..record
        };
        Ok((record, notes))
    })
    .await
}

/// Go back to an earlier revision.
pub(crate) async fn rollback(config: &Config, leaf: &ArgMatches) -> anyhow::Result<Exit> {
    let to = match config.text(settings::REVISION) {
        None => None,
        Some(text) => Some(text.parse::<u64>().map_err(|_| {
            let reason = format!("`{text}` is no number of a revision");
            config.wrong(settings::REVISION, reason)
        })?),
    };
    let name = name(leaf)?.to_owned();
    let by = By::new(config)?;
    let wait = wait::limit(config)?;
    let session = Session::open(config).await?;
    let written = async {
        let view = session.view();
        let (previous, record, notes) = back(&view, &name, to)?;
        let record = record.by(Action::Rollback, &by.who, &by.why);
        let mut done = Done::write(&session, &name, previous, record).await?;
        done.notes = notes;
        anyhow::Ok((done, session.log.database_now().await?.0))
    }
    .await;
    session.log.close().await;
    let (done, now) = written?;
    done.finish(config, now, wait).await
}

/// The record of a rollback, and the number that it follows.
fn back(view: &View, name: &str, to: Option<u64>) -> anyhow::Result<(u64, Record, Vec<String>)> {
    let state = &view.state;
    let newest = match control::latest(state, name) {
        None => {
            return Err(refused(format!(
                "`{name}` was never deployed, so there is no revision to go back to"
            )));
        }
        // What cannot be read is left behind, if the way out is named.
        Some(Err(damaged)) if to.is_none() => return Err(super::unreadable(name, &damaged)),
        Some(newest) => newest,
    };
    let number = match &newest {
        Ok(revision) => revision.number,
        Err(damaged) => damaged.number.unwrap_or_default(),
    };
    let target = match to {
        Some(to) => match control::revision(state, name, to) {
            Some(target) => target.map_err(|damaged| super::unreadable(name, &damaged))?,
            None => {
                return Err(refused(format!(
                    "`{name}` has no revision {to}; it has 1 to {number}, as `aedile plugin history \
                     {name}` lists them"
                )));
            }
        },
        None => control::before(state, name, number).ok_or_else(|| {
            refused(format!(
                "nothing that ran before revision {number} of `{name}` wanted anything else; name \
                 the revision to go back to with --to, as `aedile plugin history {name}` lists them"
            ))
        })?,
    };
    if target.record.removed {
        return Err(refused(format!(
            "revision {} of `{name}` is its removal; `aedile plugin remove {name}` does that again",
            target.number
        )));
    }
    let record = match &newest {
        Ok(newest) if !newest.record.removed => newest.record.back_to(&target),
        // Nothing stands that a rollback would have to respect.
        _ => target.record.back_to(&target),
    };
    let kept_back: Vec<&str> = target
        .record
        .grants
        .iter()
        .filter(|grant| !record.grants.contains(grant))
        .map(String::as_str)
        .collect();
    let mut notes = Vec::new();
    if !kept_back.is_empty() {
        notes.push(format!(
            "  not given back, as they were taken since: {0}. To give them: aedile plugin grant \
             {name} {0}",
            kept_back.join(" ")
        ));
    }
    if !record.enabled {
        notes.push("  it stays disabled".to_owned());
    }
    Ok((number, record, notes))
}

/// Change configuration, schedule or limits.
pub(crate) async fn set(config: &Config, leaf: &ArgMatches) -> anyhow::Result<Exit> {
    let name = name(leaf)?.to_owned();
    let by = By::new(config)?;
    let wait = wait::limit(config)?;
    let dry = config.switch(settings::DRY_RUN)?;
    let plugin_config = changes::plugin_config(config)?;
    let session = Session::open(config).await?;
    let written = async {
        let view = session.view();
        let current = current(config, &view, &name)?;
        let before = wanted(&current, &name)?;
        let mut record = before.clone().by(Action::Set, &by.who, &by.why);
        let mut said = changes::schedule(config, &mut record.schedule)?;
        said |= changes::limits(leaf, &mut record.limits)?;
        if let Some(fenced) = changes::fenced(config)? {
            record.fenced = fenced;
            said = true;
        }
        let new_config = plugin_config.is_some();
        if let Some(values) = plugin_config {
            record.config = values;
            said = true;
        }
        if !said {
            return Err(refused(
                "nothing to set: name a schedule, a limit, --fenced or --plugin-config",
            ));
        }
        if new_config || record.limits != before.limits {
            super::deploy::check_stored(config, &session, &name, &record).await?;
        }
        if dry {
            show_dry(config, &name, &before, &record)?;
            return Ok(None);
        }
        let done = Done::write(&session, &name, current.previous, record).await?;
        Ok(Some((done, session.log.database_now().await?.0)))
    }
    .await;
    session.log.close().await;
    match written? {
        Some((done, now)) => done.finish(config, now, wait).await,
        None => Ok(Exit::Ok),
    }
}

/// What a change would do.
fn show_dry(config: &Config, name: &str, before: &Record, record: &Record) -> anyhow::Result<()> {
    let outcome = if before.same_setting(record) {
        "unchanged"
    } else {
        "fits"
    };
    if config.switch(settings::JSON)? {
        return output::json(&json!({
            "outcome": outcome,
            "plugin": name,
            "previous": before,
            "record": record,
        }));
    }
    diff::print(Some(before), record);
    output::line("nothing was written");
    Ok(())
}
