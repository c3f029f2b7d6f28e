//! `aedile state`: what the metadata holds, counted.

use aedile_log::View;
use aedile_state::Operation;
use serde::Serialize;

use crate::commands;
use crate::config::Config;
use crate::exit::Exit;
use crate::output::table::{Align, Table};
use crate::output::{self, figures};
use crate::settings;

/// The counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Counted {
    index: u64,
    streams: usize,
    opened_streams: usize,
    pending_transfers: usize,
    nodes: usize,
    objects: usize,
    stream_objects: usize,
    stream_set_objects: usize,
    composites: usize,
    live_bytes: u128,
    reservations: usize,
    lapsed_reservations: usize,
    destroyed: usize,
    destroyed_delete: usize,
    destroyed_keep_data: usize,
    destroyed_deep_delete: usize,
    keys: usize,
    next_object_id: u64,
    next_stream_id: u64,
}

impl Counted {
    /// Count a view at a time of the database's clock.
    pub(crate) fn new(view: &View, now: i64) -> Self {
        let counts = view.state.counts();
        let of = |wanted: Operation| {
            let marks = view.state.marks_after(None);
            marks
                .filter(|(_, _, operation)| *operation == wanted)
                .count()
        };
        Self {
            index: view.index,
            streams: counts.streams,
            opened_streams: counts.opened_streams,
            pending_transfers: counts.transfers,
            nodes: counts.nodes,
            objects: counts.live_objects(),
            stream_objects: counts.stream_objects,
            stream_set_objects: counts.stream_set_objects,
            composites: counts.composites,
            live_bytes: counts.live_bytes,
            reservations: counts.reservations,
            lapsed_reservations: view.state.lapsed(now).count(),
            destroyed: counts.marks,
            destroyed_delete: of(Operation::Delete),
            destroyed_keep_data: of(Operation::KeepData),
            destroyed_deep_delete: of(Operation::DeepDelete),
            keys: counts.keys,
            next_object_id: view.state.next_object_id().0,
            next_stream_id: view.state.next_stream_id().0,
        }
    }
}

/// Count and show.
pub(crate) async fn run(config: &Config) -> anyhow::Result<Exit> {
    let json = config.switch(settings::JSON)?;
    let reader = commands::reader(config, &commands::clock()).await?;
    let now = reader.database_now().await?.0;
    let view = reader.view().await?;
    reader.close().await;
    let counted = Counted::new(&view, now);
    if json {
        output::json(&counted)?;
    } else {
        print(&counted);
    }
    Ok(Exit::Ok)
}

fn print(counted: &Counted) {
    let mut table = Table::new(&[
        ("what", Align::Left),
        ("count", Align::Right),
        ("of which", Align::Left),
    ]);
    let number = |count: usize| figures::grouped(count as u64);
    let mut row = |what: &str, count: String, of: String| table.row([what.to_owned(), count, of]);
    row("log index", figures::grouped(counted.index), String::new());
    row(
        "streams",
        number(counted.streams),
        format!(
            "{} open, {} moving",
            counted.opened_streams, counted.pending_transfers
        ),
    );
    row("nodes", number(counted.nodes), String::new());
    row(
        "live objects",
        number(counted.objects),
        format!(
            "{} of one stream, {} of several; {} composite; {}",
            counted.stream_objects,
            counted.stream_set_objects,
            counted.composites,
            figures::bytes(u64::try_from(counted.live_bytes).unwrap_or(u64::MAX))
        ),
    );
    row(
        "reservations",
        number(counted.reservations),
        format!("{} lapsed", counted.lapsed_reservations),
    );
    row(
        "destroyed queue",
        number(counted.destroyed),
        format!(
            "{} delete, {} keep-data, {} deep-delete",
            counted.destroyed_delete, counted.destroyed_keep_data, counted.destroyed_deep_delete
        ),
    );
    row("keys", number(counted.keys), String::new());
    row(
        "next object id",
        counted.next_object_id.to_string(),
        String::new(),
    );
    for line in table.lines() {
        output::line(&line);
    }
}
