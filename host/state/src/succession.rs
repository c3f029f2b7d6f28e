//! Whether one state can have come from another.

use crate::records::Node;
use crate::{NodeId, State, Stream};

/// Whether the second state cannot have come from the first.
type Contradicts = fn(&State, &State) -> bool;

impl State {
    /// The section of the snapshot in which `later` cannot have come from this
    /// state, whatever the commands between them were; `None` if nothing speaks
    /// against it. Ids and places in the destroyed queue are handed out once and
    /// in order, nodes stay, and epochs and start offsets only grow. Linear in
    /// what `later` holds of streams, reservations and marks.
    ///
    /// It finds a history that parted from this one: the ids that were handed
    /// out since then were handed out again, to others.
    pub fn first_contradiction(&self, later: &Self) -> Option<&'static str> {
        let checks: [(&'static str, Contradicts); 7] = [
            ("next stream id", |a, b| {
                b.next_stream_id() < a.next_stream_id()
            }),
            ("next object id", |a, b| {
                b.next_object_id() < a.next_object_id()
            }),
            ("next mark", |a, b| b.next_mark_seq() < a.next_mark_seq()),
            ("streams", |a, b| {
                b.streams_after(None).any(|row| stream(a, row))
            }),
            ("nodes", |a, b| {
                a.nodes_after(None).any(|(id, node)| older(b, id, node))
            }),
            ("reservations", |a, b| {
                b.reservations_after(None)
                    .take_while(|(id, _)| *id < a.next_object_id())
                    .any(|(id, deadline)| a.reservation(id) != Some(deadline))
            }),
            ("destroyed queue", |a, b| {
                b.marks_after(None)
                    .take_while(|(seq, ..)| *seq < a.next_mark_seq())
                    .any(|(seq, object, _)| a.mark(object).is_none_or(|(at, _)| at != seq))
            }),
        ];
        checks
            .iter()
            .find(|(_, contradicts)| contradicts(self, later))
            .map(|&(section, _)| section)
    }
}

/// Whether a later stream cannot have come from this state.
fn stream(earlier: &State, later: Stream) -> bool {
    match earlier.stream(later.id) {
        Some(before) => later.epoch < before.epoch || later.start_offset < before.start_offset,
        // A stream that was deleted does not come back.
        None => later.id < earlier.next_stream_id(),
    }
}

/// Whether the later state does not know a node, or an older epoch of it.
fn older(later: &State, id: NodeId, node: &Node) -> bool {
    later.node(id).is_none_or(|now| now.epoch < node.epoch)
}
