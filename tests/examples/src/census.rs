//! What the census is to find, counted here from the state itself.

use std::cmp::Reverse;

use aedile_state::{State, StreamState};

/// The census of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    /// The text below `report`.
    pub report: String,
    /// The line of the run history.
    pub summary: String,
    /// How many streams there are.
    pub streams: u64,
    /// The named streams and what each holds.
    pub top: Vec<(u64, u64)>,
}

/// The census of a state that names so many streams.
pub fn expected(state: &State, most: usize) -> Census {
    let (mut streams, mut open, mut records) = (0, 0, 0);
    let mut top = Vec::new();
    for stream in state.streams_after(None) {
        let held = stream.end_offset - stream.start_offset;
        streams += 1;
        open += u64::from(stream.state == StreamState::Opened);
        records += held;
        top.push((stream.id.0, held));
    }
    top.sort_by_key(|&(id, held)| (Reverse(held), id));
    top.truncate(most);
    let named: String = top
        .iter()
        .map(|(id, held)| format!("top {id} {held}\n"))
        .collect();
    Census {
        report: format!("streams {streams}\nopen {open}\nrecords {records}\n{named}"),
        summary: format!("{streams} streams, {open} open, {records} records"),
        streams,
        top,
    }
}
