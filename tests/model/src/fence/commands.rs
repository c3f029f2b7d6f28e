//! What the rows say, applied by the real state machine: each holder ends the same
//! reservation and cleans the same mark, whatever the other did.

use std::sync::LazyLock;

use aedile_state::{
    Changes, Command, CompactRequest, NOOP, NodeId, ObjectId, Operation, State, StreamId,
};

use super::database::Row;

/// The node that made the mark and the reservation.
const OWNER: NodeId = NodeId(9);
/// The object that is marked.
const MARKED: ObjectId = ObjectId(77);

/// A state with one mark and one reservation that has lapsed.
static BEGINNING: LazyLock<State> = LazyLock::new(|| {
    let mut state = State::new();
    let stream = StreamId(0);
    let (node, node_epoch) = (OWNER, 1);
    for command in [
        Command::RegisterNode {
            node,
            node_epoch,
            http_address: String::new(),
            slots: 1,
        },
        Command::CreateStream { node, node_epoch },
        Command::OpenStream {
            node,
            node_epoch,
            stream,
            epoch: 0,
        },
        Command::PrepareObject {
            node,
            node_epoch,
            count: 1,
            ttl_ms: 10,
            now_ms: 0,
        },
        Command::CompactStreamObject {
            node,
            node_epoch,
            now_ms: 0,
            request: CompactRequest {
                object: NOOP,
                object_size: 0,
                stream,
                stream_epoch: 0,
                start_offset: 0,
                end_offset: 0,
                attributes: 0,
                sources: vec![MARKED],
                operations: vec![Operation::Delete],
            },
        },
    ] {
        let outcome = state.apply(&command);
        assert!(outcome.is_ok(), "{command:?}: {outcome:?}");
    }
    assert!(state.mark(MARKED).is_some(), "a mark is there");
    assert_eq!(state.lapsed(100).count(), 1, "a reservation has lapsed");
    state
});

/// How often something came of the commands of these rows, the expiries and the
/// cleans.
pub(super) fn effects(rows: &[Row]) -> (usize, usize) {
    let mut state = BEGINNING.clone();
    let mut counts = (0, 0);
    for row in rows {
        let now_ms = 100 + i64::try_from(row.writer).unwrap_or(0);
        let expire = Command::ExpirePreparedObjects { now_ms };
        let clean = Command::CleanDestroyedObjects {
            objects: vec![MARKED],
        };
        let mut changed = |command| {
            let outcome = state.apply(&command);
            usize::from(outcome.is_ok_and(|applied| applied.changes != Changes::None))
        };
        counts.0 += changed(expire);
        counts.1 += changed(clean);
    }
    counts
}
