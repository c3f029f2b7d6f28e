//! `aedile lease show`.

use aedile_lease::is_native;
use aedile_log::LeaseRecord;
use serde::Serialize;

use crate::commands;
use crate::config::Config;
use crate::exit::Exit;
use crate::output::table::{Align, Table};
use crate::output::{self, figures};
use crate::settings;

/// A lease row as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Shown {
    /// Its name; `shared` is the row that PicoMQ nodes contend for too.
    pub(crate) name: String,
    /// Who holds it; none if it is free.
    pub(crate) holder: Option<String>,
    /// Who held it last; empty if nobody ever did.
    pub(crate) last_holder: String,
    /// Whether the holder is a PicoMQ node.
    pub(crate) native: bool,
    /// The fencing token.
    pub(crate) epoch: u64,
    /// When it expires, in Unix milliseconds; 0 after a release.
    pub(crate) expires: i64,
    /// What is left of it, in milliseconds by the database's clock.
    pub(crate) left_ms: u64,
}

impl Shown {
    /// The row at a time of the database's clock.
    pub(crate) fn new(row: LeaseRecord, now: i64) -> Self {
        let left_ms = u64::try_from(row.expires.0.saturating_sub(now)).unwrap_or(0);
        let held = left_ms > 0 && !row.holder.is_empty();
        Self {
            name: row.name,
            holder: held.then(|| row.holder.clone()),
            native: is_native(&row.holder),
            last_holder: row.holder,
            epoch: row.epoch,
            expires: row.expires.0,
            left_ms,
        }
    }

    /// One line about who holds it.
    pub(crate) fn line(&self, now: i64) -> String {
        let native = if self.native { " (a PicoMQ node)" } else { "" };
        match &self.holder {
            Some(holder) => format!(
                "{holder}{native}, epoch {}, {} left",
                self.epoch,
                figures::span(std::time::Duration::from_millis(self.left_ms))
            ),
            None if self.last_holder.is_empty() => "free; nobody ever held it".to_owned(),
            None if self.expires == 0 => {
                format!(
                    "free; released by {}{native} at epoch {}",
                    self.last_holder, self.epoch
                )
            }
            None => format!(
                "free; {}{native} let epoch {} expire {}",
                self.last_holder,
                self.epoch,
                figures::ago(self.expires, now)
            ),
        }
    }
}

/// Show the lease rows.
pub(crate) async fn show(config: &Config) -> anyhow::Result<Exit> {
    let json = config.switch(settings::JSON)?;
    let reader = commands::reader(config, &commands::clock()).await?;
    let now = reader.database_now().await?.0;
    let rows = reader.lease_rows().await?;
    reader.close().await;
    let shown: Vec<Shown> = rows.into_iter().map(|row| Shown::new(row, now)).collect();
    if json {
        output::json(&serde_json::json!({ "now": now, "leases": shown }))?;
        return Ok(Exit::Ok);
    }
    if shown.is_empty() {
        output::line("there is no lease row; `aedile run` makes it");
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&[("lease", Align::Left), ("holder", Align::Left)]);
    for row in &shown {
        table.row([row.name.clone(), row.line(now)]);
    }
    for line in table.lines() {
        output::line(&line);
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use aedile_clock::UnixMillis;

    use super::*;

    fn row(holder: &str, expires: i64) -> Shown {
        let row = LeaseRecord {
            name: "shared".to_owned(),
            holder: holder.to_owned(),
            epoch: 7,
            expires: UnixMillis(expires),
        };
        Shown::new(row, 10_000)
    }

    #[test]
    fn a_row_says_who_holds_it() {
        assert_eq!(
            row("anna-1f", 14_500).line(10_000),
            "anna-1f, epoch 7, 4.5 s left"
        );
        assert_eq!(
            row("node-1-17", 14_500).line(10_000),
            "node-1-17 (a PicoMQ node), epoch 7, 4.5 s left"
        );
        assert_eq!(row("", 0).line(10_000), "free; nobody ever held it");
        assert_eq!(
            row("anna-1f", 0).line(10_000),
            "free; released by anna-1f at epoch 7"
        );
        assert_eq!(
            row("anna-1f", 9_000).line(10_000),
            "free; anna-1f let epoch 7 expire 1.0 s ago"
        );
        assert_eq!(row("x", i64::MIN).left_ms, 0);
    }
}
