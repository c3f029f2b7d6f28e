//! The destructive commands: each item is checked against the view before it is
//! proposed. A grant lets a plugin ask; it never lets it unindex live data.

use std::collections::BTreeMap;

use aedile_engine::wit::{Compaction, StreamAt, Transfer, Trim};
use aedile_log::View;
use aedile_state::{
    Command, CompactRequest, NOOP, NodeId, ObjectId, Operation, State, Stream, StreamId,
    StreamState, is_composite,
};

/// Most objects of one compaction.
const OBJECTS: usize = 1000;

type Checked = Result<Command, String>;

/// The node in whose name a command goes: the stream's own if it is registered,
/// else any; the log only wants a registered one.
fn registered(state: &State, stream: &Stream) -> Result<(NodeId, i64), String> {
    state
        .node(stream.node)
        .map(|node| (stream.node, node.epoch))
        .or_else(|| {
            state
                .nodes_after(None)
                .next()
                .map(|(id, node)| (id, node.epoch))
        })
        .ok_or_else(|| "no node is registered".to_owned())
}

fn at_epoch(state: &State, id: u64, epoch: i64) -> Result<Stream, String> {
    let stream = state
        .stream(StreamId(id))
        .ok_or_else(|| format!("stream {id} does not exist"))?;
    if stream.epoch != epoch {
        return Err(format!(
            "stream {id} is at epoch {}, not {epoch}",
            stream.epoch
        ));
    }
    Ok(stream)
}

pub(super) fn trim(view: &View, trim: Trim) -> Checked {
    let stream = at_epoch(&view.state, trim.id, trim.epoch)?;
    if stream.state != StreamState::Opened {
        return Err(format!("stream {} is not open", trim.id));
    }
    if trim.start_offset < stream.start_offset || trim.start_offset > stream.end_offset {
        return Err(format!(
            "offset {} is outside stream {}, which has {} to {}",
            trim.start_offset, trim.id, stream.start_offset, stream.end_offset
        ));
    }
    let (node, node_epoch) = registered(&view.state, &stream)?;
    Ok(Command::TrimStream {
        node,
        node_epoch,
        stream: stream.id,
        epoch: trim.epoch,
        new_start_offset: trim.start_offset,
    })
}

/// `shared` names an object of several streams for each stream that is in one.
pub(super) fn delete(view: &View, at: StreamAt, shared: &BTreeMap<StreamId, ObjectId>) -> Checked {
    let stream = at_epoch(&view.state, at.id, at.epoch)?;
    if stream.state != StreamState::Closed {
        return Err(format!(
            "stream {} is open; only a closed one can be deleted",
            at.id
        ));
    }
    // The owner's compaction of that object would name a stream that is gone,
    // and be rejected for good.
    if let Some(object) = shared.get(&stream.id) {
        return Err(format!(
            "a part of stream {} is in object {object}, which holds several streams; it can be \
             deleted once its owner has compacted that object",
            at.id
        ));
    }
    let (node, node_epoch) = registered(&view.state, &stream)?;
    Ok(Command::DeleteStream {
        node,
        node_epoch,
        stream: stream.id,
        epoch: at.epoch,
    })
}

pub(super) fn compact(view: &View, compaction: Compaction) -> Checked {
    let stream = at_epoch(&view.state, compaction.id, compaction.epoch)?;
    let epoch = u64::try_from(stream.epoch)
        .map_err(|_| format!("stream {} was never opened", compaction.id))?;
    if compaction.objects.is_empty() || compaction.objects.len() > OBJECTS {
        return Err(format!(
            "a compaction names 1 to {OBJECTS} objects, this one {}",
            compaction.objects.len()
        ));
    }
    let mut sources = Vec::with_capacity(compaction.objects.len());
    let mut operations = Vec::with_capacity(compaction.objects.len());
    for id in compaction.objects.into_iter().map(ObjectId) {
        let object = view
            .state
            .object(id)
            .ok_or_else(|| format!("object {id} is not live"))?;
        let [range] = object.ranges.as_slice() else {
            return Err(format!("object {id} holds several streams"));
        };
        if object.kind != aedile_state::ObjectKind::Stream || range.stream != stream.id {
            return Err(format!(
                "object {id} is not an object of stream {}",
                stream.id
            ));
        }
        if range.end_offset > stream.start_offset {
            return Err(format!(
                "object {id} ends at offset {}, and stream {} begins at {}: it holds live data",
                range.end_offset, stream.id, stream.start_offset
            ));
        }
        // The parts of a composite are in no catalog: with a plain delete they
        // would stay for ever. Those that another composite links do stay.
        operations.push(if is_composite(object.attributes) {
            Operation::DeepDelete
        } else {
            Operation::Delete
        });
        sources.push(id);
    }
    let (node, node_epoch) = registered(&view.state, &stream)?;
    Ok(Command::CompactStreamObject {
        node,
        node_epoch,
        // Only new objects carry the time, and there is none.
        now_ms: 0,
        request: CompactRequest {
            object: NOOP,
            object_size: 0,
            stream: stream.id,
            stream_epoch: epoch,
            start_offset: stream.start_offset,
            end_offset: stream.start_offset,
            attributes: 0,
            sources,
            operations,
        },
    })
}

pub(super) fn transfer(view: &View, transfer: Transfer) -> Checked {
    let id = transfer.id;
    let stream = view
        .state
        .stream(StreamId(id))
        .ok_or_else(|| format!("stream {id} does not exist"))?;
    let (from, to) = (NodeId(transfer.source), NodeId(transfer.target));
    if stream.state != StreamState::Opened || stream.node != from {
        return Err(format!("stream {id} is not open on node {from}"));
    }
    if from == to {
        return Err(format!("stream {id} is on node {to} already"));
    }
    if view.state.node(to).is_none_or(|node| node.slots == 0) {
        return Err(format!("node {to} is not registered, or takes no streams"));
    }
    Ok(Command::TransferStream {
        stream: stream.id,
        from,
        to,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::testing::World;

    fn view(world: &World) -> View {
        View {
            index: 1,
            state: world.state.clone(),
        }
    }

    fn at(world: &World, objects: &[ObjectId]) -> Compaction {
        Compaction {
            id: world.stream.0,
            epoch: 0,
            objects: objects.iter().map(|id| id.0).collect(),
        }
    }

    #[test]
    fn only_what_lies_below_the_start_leaves_the_catalog() {
        let mut world = World::new();
        let objects = world.objects(3);
        let live = compact(&view(&world), at(&world, &objects[..1])).expect_err("live data");
        assert!(live.contains("it holds live data"), "{live}");
        let command = trim(
            &view(&world),
            Trim {
                id: world.stream.0,
                epoch: 0,
                start_offset: 15,
            },
        )
        .expect("inside the stream");
        world.apply(command);
        compact(&view(&world), at(&world, &objects[..2])).expect_err("the second ends at 20");
        let command = compact(&view(&world), at(&world, &objects[..1])).expect("trimmed");
        world.apply(command);
        assert!(!world.state.is_live(objects[0]) && world.state.is_live(objects[1]));
        assert_eq!(
            world.state.mark(objects[0]).map(|(_, op)| op),
            Some(Operation::Delete)
        );
        compact(&view(&world), at(&world, &objects[..1])).expect_err("no longer live");
        compact(&view(&world), at(&world, &[])).expect_err("names none");
    }

    #[test]
    fn a_trimmed_composite_takes_its_parts_along() {
        let mut world = World::new();
        let (composite, _) = world.composite();
        let end = world
            .state
            .stream(world.stream)
            .expect("the stream")
            .end_offset;
        let command = trim(
            &view(&world),
            Trim {
                id: world.stream.0,
                epoch: 0,
                start_offset: end,
            },
        );
        world.apply(command.expect("up to the end"));
        let command = compact(&view(&world), at(&world, &[composite])).expect("trimmed");
        world.apply(command);
        assert_eq!(
            world.state.mark(composite).map(|(_, op)| op),
            Some(Operation::DeepDelete)
        );
    }

    #[test]
    fn a_closed_stream_goes_unless_it_shares_an_object_with_others() {
        let mut world = World::new();
        let stream = world.stream;
        let row = world.state.stream(stream).expect("the stream");
        let (node, node_epoch) = registered(&world.state, &row).expect("a node");
        world.apply(Command::CloseStream {
            node,
            node_epoch,
            stream,
            epoch: row.epoch,
        });
        let at = StreamAt {
            id: stream.0,
            epoch: row.epoch,
        };
        let shared = BTreeMap::from([(stream, ObjectId(9))]);
        let text = delete(&view(&world), at, &shared).expect_err("shared");
        assert!(
            text.contains("object 9, which holds several streams"),
            "{text}"
        );
        let wanted = std::collections::BTreeSet::from([stream]);
        let shared = world.state.in_stream_sets(&wanted);
        let command = delete(&view(&world), at, &shared).expect("its own alone");
        world.apply(command);
        assert_eq!(world.state.stream(stream), None);
    }

    #[test]
    fn epochs_and_states_are_checked() {
        let world = World::new();
        let view = view(&world);
        let stream = world.stream.0;
        trim(
            &view,
            Trim {
                id: stream,
                epoch: 1,
                start_offset: 0,
            },
        )
        .expect_err("another epoch");
        trim(
            &view,
            Trim {
                id: stream,
                epoch: 0,
                start_offset: 1,
            },
        )
        .expect_err("past the end");
        trim(
            &view,
            Trim {
                id: 99,
                epoch: 0,
                start_offset: 0,
            },
        )
        .expect_err("no such stream");
        delete(
            &view,
            StreamAt {
                id: stream,
                epoch: 0,
            },
            &BTreeMap::new(),
        )
        .expect_err("open");
        transfer(
            &view,
            Transfer {
                id: stream,
                source: 2,
                target: 1,
            },
        )
        .expect_err("elsewhere");
        transfer(
            &view,
            Transfer {
                id: stream,
                source: 1,
                target: 9,
            },
        )
        .expect_err("unknown");
    }
}
