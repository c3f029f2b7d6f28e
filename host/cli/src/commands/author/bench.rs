//! `aedile plugin bench`: what a tick costs, beside its limits.

use std::path::Path;

use aedile_runtime::trial::{self, MeasureError, Measured};
use clap::ArgMatches;

use super::{Refused, ground};
use crate::commands;
use crate::config::Config;
use crate::exit::Exit;
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use crate::output::{self, figures};
use crate::settings;

/// Ticks that are timed.
const RUNS: usize = 100;
/// Most ticks that can be asked for.
const MOST: usize = 1_000_000;

/// Measure a plugin.
pub(crate) async fn bench(config: &Config, leaf: &ArgMatches, file: &Path) -> anyhow::Result<Exit> {
    let json = config.switch(settings::JSON)?;
    let runs = config.count(settings::RUNS, 1, MOST)?.unwrap_or(RUNS);
    let clock = commands::clock();
    let engine = ground::engine(&clock)?;
    let plugin = ground::plugin(config, leaf, &engine, file)?;
    let prepared = ground::ground(config, &clock, engine, &plugin.inspection).await?;
    let measured = trial::measure(&prepared.ground, &plugin.subject, runs)
        .await
        .map_err(|error| match error {
            MeasureError::Trial(unfit) => anyhow::Error::from(Refused {
                what: file.display().to_string(),
                reason: unfit.to_string(),
            }),
            other => other.into(),
        })?;
    if json {
        output::json(&measured)?;
    } else {
        print(&measured);
    }
    Ok(match measured.failed() {
        true => Exit::Plugin,
        false => Exit::Ok,
    })
}

fn print(measured: &Measured) {
    let style = Style::stdout();
    output::line(&style.bold(&format!("{} {}", measured.plugin, measured.version)));
    let ended = format!("{}: {}", measured.outcome, measured.text);
    output::line(&match measured.failed() {
        true => style.bad(&format!("its tick ends with {ended}")),
        false => format!("its tick ends with {}", ended.trim_end_matches([':', ' '])),
    });
    output::line(&format!(
        "compiled in {:.1} ms; a tick takes {:.0} µs, of them {:.0} µs its own ({} ticks)",
        measured.load_ms, measured.wall_us, measured.cpu_us, measured.runs
    ));
    let boundary = &measured.boundary;
    output::line(&format!(
        "{} of the host{}",
        figures::count(boundary.calls, "call"),
        match boundary.largest {
            0 => String::new(),
            bytes => format!(
                ", the largest {} ({})",
                boundary.largest_call,
                figures::bytes(bytes)
            ),
        }
    ));
    output::line("");
    let mut table = Table::new(&[
        ("per tick", Align::Left),
        ("used", Align::Right),
        ("limit", Align::Right),
        ("share", Align::Right),
    ]);
    for share in &measured.shares {
        let number = |value: f64| match share.unit.as_str() {
            "bytes" => figures::bytes(value as u64),
            "ms" => format!("{value:.2} ms"),
            unit => format!("{} {unit}", figures::grouped(value as u64)),
        };
        table.row([
            share.what.clone(),
            number(share.used),
            share.limit.map_or("none".to_owned(), number),
            share
                .percent()
                .map_or(String::new(), |percent| format!("{percent:.2} %")),
        ]);
    }
    for line in table.lines() {
        output::line(&line);
    }
    output::line("");
    output::line(
        "fuel counts instructions: the same on every machine, so a good figure to watch in CI",
    );
}
