//! The snapshot's binary form: the whole state in a fixed order, every list
//! in the order of its keys, so that equal states give equal bytes.

mod decode;
mod encode;

use crate::State;
use crate::codec::DecodeError;

impl State {
    /// The snapshot's payload. Equal states give equal bytes.
    pub fn encode_snapshot(&self) -> Vec<u8> {
        encode::encode(self)
    }

    /// The state of a snapshot's payload, with all that is derived from it.
    ///
    /// Accepts what PicoMQ accepts: also lists out of order, which are then in
    /// order when the state is encoded again.
    pub fn decode_snapshot(payload: &[u8]) -> Result<Self, DecodeError> {
        decode::decode(payload)
    }
}

/// The name of the first section of the snapshot in which two states differ;
/// `None` if their snapshots are equal.
pub(crate) fn first_difference(a: &State, b: &State) -> Option<&'static str> {
    let sections = [
        ("next stream id", a.next_stream_id == b.next_stream_id),
        ("streams", a.streams == b.streams),
        ("nodes", a.nodes == b.nodes),
        ("next object id", a.next_object_id == b.next_object_id),
        ("reservations", a.prepared == b.prepared),
        ("stream-set objects", a.stream_sets == b.stream_sets),
        ("stream objects", a.stream_objects == b.stream_objects),
        ("destroyed queue", a.marks == b.marks),
        ("next mark", a.next_destroyed_seq == b.next_destroyed_seq),
        ("keys", a.kv == b.kv),
        ("transfers", a.transfers == b.transfers),
    ];
    sections
        .iter()
        .find(|(_, equal)| !equal)
        .map(|&(name, _)| name)
}

impl State {
    /// The first section of the snapshot in which the states differ, by name;
    /// `None` if their snapshots are the same bytes. What both states share
    /// still is compared entry by entry: linear in the state's size.
    pub fn first_difference(&self, other: &Self) -> Option<&'static str> {
        first_difference(self, other)
    }
}
