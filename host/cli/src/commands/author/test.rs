//! `aedile plugin test`: a trial on a captured state.

use std::path::Path;

use aedile_runtime::trial::{self, Trial};
use clap::ArgMatches;
use serde_json::Value;

use super::{Refused, expect, ground};
use crate::commands::{self, LISTED};
use crate::config::Config;
use crate::exit::Exit;
use crate::output::style::Style;
use crate::output::{self, figures};
use crate::settings;

/// Attacks that are made where there could be more.
const ATTACKS: usize = 400;
/// Most attacks that can be asked for.
const MOST: usize = 1_000_000;

/// Try a plugin and tell what came of it.
pub(crate) async fn test(config: &Config, leaf: &ArgMatches, file: &Path) -> anyhow::Result<Exit> {
    let json = config.switch(settings::JSON)?;
    let expected = expected(config)?;
    let attacks = config.count(settings::ATTACKS, 0, MOST)?.unwrap_or(ATTACKS);
    let clock = commands::clock();
    let engine = ground::engine(&clock)?;
    let plugin = ground::plugin(config, leaf, &engine, file)?;
    let prepared = ground::ground(config, &clock, engine, &plugin.inspection).await?;
    let trial = trial::trial(&prepared.ground, &plugin.subject, attacks)
        .await
        .map_err(|unfit| Refused {
            what: file.display().to_string(),
            reason: unfit.to_string(),
        })?;
    let told = serde_json::to_value(&trial)?;
    let unmet = expected.map_or_else(Vec::new, |expected| expect::unmet(&expected, &told));
    if json {
        let mut told = told;
        told["passed"] = (trial.passed() && unmet.is_empty()).into();
        told["unmet"] = unmet.clone().into();
        output::json(&told)?;
    } else {
        print(config, &trial, &unmet)?;
    }
    Ok(match trial.passed() && unmet.is_empty() {
        true => Exit::Ok,
        false => Exit::Plugin,
    })
}

fn expected(config: &Config) -> anyhow::Result<Option<Value>> {
    let Some(path) = config.text(settings::EXPECT) else {
        return Ok(None);
    };
    let wrong = |reason: String| config.wrong(settings::EXPECT, format!("`{path}`: {reason}"));
    let text = std::fs::read_to_string(path)
        .map_err(|error| wrong(format!("the file cannot be read: {error}")))?;
    let value: Value =
        serde_json::from_str(&text).map_err(|error| wrong(format!("it is no JSON: {error}")))?;
    if !value.is_object() {
        return Err(wrong("it must be an object, a part of what --json prints".to_owned()).into());
    }
    Ok(Some(value))
}

fn print(config: &Config, trial: &Trial, unmet: &[String]) -> anyhow::Result<()> {
    let limit = (!config.switch(settings::EVERY)?).then_some(LISTED);
    let style = Style::stdout();
    output::line(&style.bold(&format!("{} {}", trial.plugin, trial.version)));
    output::line(&format!(
        "on the state at log index {}, at {}",
        trial.index,
        figures::time(trial.now)
    ));
    if let Some(doubt) = &trial.store_suspect {
        output::line(&style.bad(&format!("nothing is deleted: {doubt}")));
    }
    section(
        style,
        &figures::count(trial.ticks.len() as u64, "tick"),
        &trial.ticks,
        limit,
        |tick| format!("{:<6} {}", tick.outcome, tick.text),
    );
    section(style, "commands", &trial.commands, limit, |command| {
        format!("{}  {}", command.command, command.detail)
    });
    section(style, "deleted", &trial.deletes, limit, |delete| {
        format!("{}  {}", delete.id, delete.key)
    });
    section(style, "cleaned", &trial.cleans, limit, |clean| {
        format!("{}  {}", clean.id, clean.operation)
    });
    section(style, "expired", &trial.expires, limit, |expiry| {
        expiry.id.to_string()
    });
    section(
        style,
        "refused by the host",
        &trial.refused,
        limit,
        |left| format!("{}  {}", left.id, left.reason),
    );
    output::line("");
    if let Some(failure) = &trial.failure {
        output::line(&style.bad(&format!("failed: {failure}")));
    }
    for divergence in &trial.divergences {
        let place = match (&divergence.at, &divergence.call) {
            (Some(at), Some(call)) => format!(
                "call {at} ({}, {}): ",
                call.function,
                figures::count(call.items as u64, "item")
            ),
            _ => String::new(),
        };
        output::line(&style.bad(&format!("{place}{}", divergence.attack)));
        output::line(&format!("  {}", divergence.difference));
    }
    for text in unmet {
        output::line(&style.bad(&format!("not as expected: {text}")));
    }
    if trial.failure.is_none() {
        let made = match trial.tried == trial.attacks {
            true => format!("{} attacks", trial.tried),
            false => format!("{} of {} attacks", trial.tried, trial.attacks),
        };
        output::line(&match trial.divergences.len() {
            0 => style.good(&format!("{made}: the same end after each")),
            count => style.bad(&format!("{made}: another end after {count}")),
        });
    }
    output::line("nothing was written");
    Ok(())
}

fn section<T>(
    style: Style,
    title: &str,
    items: &[T],
    limit: Option<usize>,
    text: impl Fn(&T) -> String,
) {
    if items.is_empty() {
        return;
    }
    output::line("");
    output::line(&style.bold(title));
    let (shown, more) = output::cut(items, limit);
    for item in shown {
        output::line(&format!("  {}", text(item)));
    }
    if let Some(more) = more {
        output::line(&format!("  {more}"));
    }
}
