//! The database: reachable, its tables, every row, the lease.

use aedile_clock::SharedClock;
use aedile_log::{LogError, LogErrorKind, MetaUrl, Reader, View};

use super::Items;
use crate::commands::SHARED_LEASE;
use crate::commands::lease::Shown;
use crate::config::Config;
use crate::output::figures;
use crate::settings;

const WHAT: &str = "database";
const LEASE: &str = "lease";
/// An offset of clocks that would confuse a reader of times, in milliseconds.
const OFFSET_MS: u64 = 1_000;

/// Look at the database; the view if it could be read.
pub(super) async fn look(config: &Config, clock: &SharedClock, items: &mut Items) -> Option<View> {
    let url = match config.meta_url() {
        Ok(url) => url,
        Err(error) => {
            items.error("configuration", error);
            return None;
        }
    };
    let reader = match Reader::open(&url, clock).await {
        Ok(reader) => reader,
        Err(error) => {
            refused(error, items);
            return None;
        }
    };
    items.ok(WHAT, format!("{url} answers"));
    let view = content(&reader, &url, clock, items).await;
    divergences(&reader, items).await;
    lease(config, &reader, clock, items).await;
    reader.close().await;
    view
}

fn refused(error: LogError, items: &mut Items) {
    let todo = match error.kind() {
        LogErrorKind::Unavailable => "check host, port, user and network, or the path of the file",
        _ => "",
    };
    let class = crate::exit::class_of_log(&error);
    items.fail(WHAT, class, error.to_string(), todo);
}

async fn content(
    reader: &Reader,
    url: &MetaUrl,
    clock: &SharedClock,
    items: &mut Items,
) -> Option<View> {
    match aedile_log::check_writable(url, clock).await {
        Ok(()) => items.ok(WHAT, "this user may write"),
        Err(error) => items.error(WHAT, error),
    }
    // What is wrong with a table, the view says below.
    if let Ok(tables) = reader.tables().await {
        let names = |present: bool| {
            let of = tables.iter().filter(|table| table.present == present);
            of.map(|table| table.name).collect::<Vec<_>>().join(", ")
        };
        items.ok(WHAT, format!("tables as expected: {}", names(true)));
        if tables.iter().any(|table| !table.present) {
            items.ok(WHAT, format!("`aedile run` will make {}", names(false)));
        }
    }
    match reader.view().await {
        Ok(view) => {
            let counts = view.state.counts();
            items.ok(
                WHAT,
                format!(
                    "every row up to index {} is read: {}, {}",
                    figures::grouped(view.index),
                    figures::count(counts.live_objects() as u64, "live object"),
                    figures::count(counts.marks as u64, "mark"),
                ),
            );
            Some(view)
        }
        Err(error) => {
            refused(error, items);
            None
        }
    }
}

/// Nodes that do nothing until an operator has settled who is right.
async fn divergences(reader: &Reader, items: &mut Items) {
    let found = match reader.divergences().await {
        Ok(found) => found,
        // What is wrong with the database, the view has said.
        Err(error) => return items.error(WHAT, error),
    };
    for record in found {
        items.warn(
            WHAT,
            format!(
                "node {} has diverged and does nothing: {} (index {})",
                record.node,
                record.reason,
                figures::grouped(record.index),
            ),
            format!(
                "find out which history counts, then: aedile log clear-divergence --node {}",
                record.node
            ),
        );
    }
}

async fn lease(config: &Config, reader: &Reader, clock: &SharedClock, items: &mut Items) {
    let now = match reader.database_now().await {
        Ok(now) => now.0,
        Err(error) => return items.error(LEASE, error),
    };
    let offset = clock.unix().0.saturating_sub(now);
    if offset.unsigned_abs() > OFFSET_MS {
        items.warn(
            LEASE,
            format!("this machine's clock is {offset} ms off the database's"),
            "Aedile goes by the database's; PicoMQ nodes go by their own, so check the time synchronisation",
        );
    }
    let rows = match reader.lease_rows().await {
        Ok(rows) => rows,
        Err(error) => return items.error(LEASE, error),
    };
    let Some(row) = rows.into_iter().find(|row| row.name == SHARED_LEASE) else {
        return items.ok(LEASE, "there is no row yet; `aedile run` makes it");
    };
    let row = Shown::new(row, now);
    let line = row.line(now);
    let take_over = config.switch(settings::TAKE_OVER).unwrap_or(false);
    if row.holder.is_some() && row.native && !take_over {
        items.warn(
            LEASE,
            line,
            "a PicoMQ node renews for ever: run with --take-over, or Aedile waits until it is gone",
        );
    } else {
        items.ok(LEASE, line);
    }
}
