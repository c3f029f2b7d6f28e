//! `aedile plugin check`: all that a deploy checks and that needs no cluster.

use std::path::Path;

use aedile_engine::Grant;
use aedile_runtime::trial;
use clap::ArgMatches;
use serde::Serialize;
use serde_json::json;

use super::ground;
use crate::commands;
use crate::commands::control::schema;
use crate::config::Config;
use crate::exit::Exit;
use crate::output::style::Style;
use crate::output::{self, figures};
use crate::settings;

/// One thing that was checked.
#[derive(Clone, Debug, Serialize)]
struct Checked {
    what: &'static str,
    ok: bool,
    text: String,
}

/// Check a module; the exit code tells whether a deploy would refuse it.
pub(crate) async fn check(config: &Config, leaf: &ArgMatches, file: &Path) -> anyhow::Result<Exit> {
    let json = config.switch(settings::JSON)?;
    let clock = commands::clock();
    let engine = ground::engine(&clock)?;
    let plugin = ground::plugin(config, leaf, &engine, file)?;
    let (inspection, subject) = (&plugin.inspection, &plugin.subject);
    let manifest = &inspection.manifest;
    let mut all = vec![Checked {
        what: "module",
        ok: true,
        text: format!(
            "{}, of the world aedile:maintenance@{}",
            figures::bytes(inspection.size as u64),
            inspection.world
        ),
    }];
    all.push(grants(&manifest.grants));
    let limit = subject.settings.limits.memory as u64;
    all.push(Checked {
        what: "memory",
        ok: inspection.minimum_memory <= limit,
        text: format!(
            "{} at its start, of {} that it may have",
            figures::bytes(inspection.minimum_memory),
            figures::bytes(limit)
        ),
    });
    if let Some(schema) = &manifest.config_schema {
        let empty = serde_json::Map::new();
        let values = subject.settings.config.as_object().unwrap_or(&empty);
        let fits = schema::check(schema, values);
        all.push(Checked {
            what: "schema",
            ok: fits.is_ok(),
            text: match fits {
                Ok(()) => "the configuration fits it".to_owned(),
                Err(error) => error.to_string(),
            },
        });
    }
    let prepared = ground::without_a_cluster(&clock, engine)?;
    let tried = trial::trial(&prepared.ground, subject, 0).await;
    let place = match &plugin.settings_file {
        Some(path) => format!("of {}", path.display()),
        None => "that is empty: {}".to_owned(),
    };
    match tried {
        Err(error) => all.push(Checked {
            what: "loading",
            ok: false,
            text: error.to_string(),
        }),
        Ok(trial) => {
            all.push(Checked {
                what: "configuration",
                ok: true,
                text: format!("it accepts the one {place}"),
            });
            let first = trial.ticks.first();
            all.push(Checked {
                what: "tick",
                ok: trial.failure.is_none(),
                text: match (&trial.failure, first) {
                    (Some(failure), _) => format!("on an empty state: {failure}"),
                    (None, Some(tick)) => format!("on an empty state: {}", tick.outcome),
                    (None, None) => "on an empty state: none was taken".to_owned(),
                },
            });
        }
    }
    let ok = all.iter().all(|checked| checked.ok);
    if json {
        output::json(&json!({
            "name": manifest.name,
            "version": manifest.version,
            "digest": inspection.digest,
            "ok": ok,
            "checks": all,
        }))?;
    } else {
        let style = Style::stdout();
        output::line(&style.bold(&format!("{} {}", manifest.name, manifest.version)));
        for checked in &all {
            let mark = match checked.ok {
                true => style.good("ok  "),
                false => style.bad("FAIL"),
            };
            output::line(&format!("{mark} {:<13} {}", checked.what, checked.text));
        }
    }
    Ok(match ok {
        true => Exit::Ok,
        false => Exit::Plugin,
    })
}

fn grants(wanted: &[Grant]) -> Checked {
    let list = |grants: &mut dyn Iterator<Item = &Grant>| {
        grants
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut text = match wanted {
        [] => "it wants none".to_owned(),
        wanted => format!("it wants {}", list(&mut wanted.iter())),
    };
    let destructive = list(&mut wanted.iter().filter(|grant| grant.destructive()));
    if !destructive.is_empty() {
        text.push_str(&format!(
            "; destructive, to be granted by name: {destructive}"
        ));
    }
    Checked {
        what: "grants",
        ok: true,
        text,
    }
}
