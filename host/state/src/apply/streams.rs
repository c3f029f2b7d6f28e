//! The life of a stream: create, place, open, trim, close, delete.

use super::{changed, changed_if, unchanged, unexpected};
use crate::records::StreamState;
use crate::state::{State, StreamObjectKey, StreamRow};
use crate::{NEVER_OPENED, NodeId, ObjectId, Operation, Outcome, Rejection, StreamId, Value};

/// Streams that one command may create.
const MAX_CREATE: u32 = 4096;

/// The row of a stream that was just created.
const CREATED: StreamRow = StreamRow {
    epoch: NEVER_OPENED,
    start_offset: 0,
    end_offset: 0,
    state: StreamState::Closed,
    node: NodeId::NONE,
};

impl State {
    pub(super) fn create_stream(&mut self) -> Outcome {
        let id = self.next_stream_id;
        self.next_stream_id = id.wrapping_add(1);
        self.streams.insert(StreamId(id), CREATED);
        Ok(changed(Value::Id(id)))
    }

    pub(super) fn create_streams(&mut self, count: u32) -> Outcome {
        match count {
            0 => return unexpected("the number of streams to create must be positive"),
            1..=MAX_CREATE => {}
            _ => return unexpected("more than 4096 streams to create"),
        }
        let first = self.next_stream_id;
        self.next_stream_id = first.wrapping_add(u64::from(count));
        // As PicoMQ: a range of ids that wraps round holds none of them.
        for id in first..self.next_stream_id {
            self.streams.insert(StreamId(id), CREATED);
        }
        Ok(changed(Value::Id(first)))
    }

    /// The node with the lowest share of its slots in use; the lowest id among
    /// equals.
    fn best_node(&self) -> Option<NodeId> {
        self.nodes
            .iter()
            .filter(|(_, node)| node.slots >= 1)
            .map(|(&id, node)| {
                let used = self.opened.count(id) + self.placed.count(id);
                (used * 1000 / u64::from(node.slots), id)
            })
            .min()
            .map(|(_, id)| id)
    }

    pub(super) fn place_stream(&mut self, stream: StreamId) -> Outcome {
        let row = self.existing_stream(stream)?;
        if row.node != NodeId::NONE {
            return Ok(unchanged(node_answer(row.node)));
        }
        if row.state != StreamState::Closed || row.epoch != NEVER_OPENED {
            return unexpected("only a stream that was never opened can be placed");
        }
        let Some(node) = self.best_node() else {
            return Err(Rejection::NodeEpochMismatch { node: NodeId::NONE });
        };
        if node != NodeId::NONE {
            self.streams.insert(stream, StreamRow { node, ..row });
        }
        // A node registered as −1 leaves the row as it was and still counts.
        let changed = self.placed.insert(node, stream);
        Ok(changed_if(
            changed || node != NodeId::NONE,
            node_answer(node),
        ))
    }

    pub(super) fn open_stream(&mut self, node: NodeId, stream: StreamId, epoch: i64) -> Outcome {
        let row = self.existing_stream(stream)?;
        if row.epoch > epoch {
            return Err(Rejection::StreamFenced { stream, epoch });
        }
        if row.epoch == epoch {
            if row.state == StreamState::Opened && row.node == node {
                return Ok(unchanged(stream_answer(stream, row)));
            }
            return Err(Rejection::StreamFenced { stream, epoch });
        }
        if row.state == StreamState::Opened {
            return Err(Rejection::StreamNotClosed { stream });
        }
        let opened = StreamRow {
            epoch,
            state: StreamState::Opened,
            node,
            ..row
        };
        self.streams.insert(stream, opened);
        self.placed.remove(row.node, stream);
        self.opened.insert(node, stream);
        Ok(changed(stream_answer(stream, opened)))
    }

    pub(super) fn trim_stream(&mut self, stream: StreamId, epoch: i64, start: u64) -> Outcome {
        let row = self.existing_stream(stream)?;
        check_open_at(stream, row, epoch)?;
        if start < row.start_offset {
            return unexpected("the new start offset is below the stream's start offset");
        }
        if start > row.end_offset {
            return unexpected("the new start offset is above the stream's end offset");
        }
        if start == row.start_offset {
            return Ok(unchanged(Value::Unit));
        }
        self.streams.insert(
            stream,
            StreamRow {
                start_offset: start,
                ..row
            },
        );
        Ok(changed(Value::Unit))
    }

    pub(super) fn close_stream(&mut self, stream: StreamId, epoch: i64) -> Outcome {
        let row = self.existing_stream(stream)?;
        if row.state == StreamState::Closed && row.epoch == epoch {
            return Ok(unchanged(Value::Unit));
        }
        check_open_at(stream, row, epoch)?;
        self.streams.insert(
            stream,
            StreamRow {
                state: StreamState::Closed,
                ..row
            },
        );
        self.opened.remove(row.node, stream);
        Ok(changed(Value::Unit))
    }

    pub(super) fn delete_stream(&mut self, stream: StreamId, epoch: i64) -> Outcome {
        let Some(row) = self.streams.get(&stream) else {
            return Ok(unchanged(Value::Unit));
        };
        if row.state != StreamState::Closed {
            return Err(Rejection::StreamNotClosed { stream });
        }
        if row.epoch != epoch {
            return Err(Rejection::ExpiredEpoch { stream, epoch });
        }
        self.streams.remove(&stream);
        self.placed.remove_stream(stream);
        self.transfers.remove(&stream);
        let keys: Vec<StreamObjectKey> = self
            .stream_objects
            .range(StreamObjectKey::all_of(stream))
            .map(|(&key, _)| key)
            .collect();
        for key in keys {
            self.remove_stream_object(key);
            self.mark_destroyed(key.object, Operation::Delete);
        }
        Ok(changed(Value::Unit))
    }
}

fn check_open_at(stream: StreamId, row: StreamRow, epoch: i64) -> Result<(), Rejection> {
    if row.state != StreamState::Opened {
        return unexpected("the stream is not open");
    }
    if row.epoch != epoch {
        return Err(Rejection::ExpiredEpoch { stream, epoch });
    }
    Ok(())
}

fn node_answer(node: NodeId) -> Value {
    Value::Id(i64::from(node.0) as u64)
}

fn stream_answer(stream: StreamId, row: StreamRow) -> Value {
    let mut answer = row.with_id(stream);
    answer.epoch = answer.epoch.max(0);
    Value::Stream(answer)
}

impl StreamObjectKey {
    /// The keys of all objects of a stream.
    pub(crate) fn all_of(stream: StreamId) -> std::ops::RangeInclusive<Self> {
        Self {
            stream,
            start_offset: 0,
            object: ObjectId(0),
        }..=Self {
            stream,
            start_offset: u64::MAX,
            object: ObjectId(u64::MAX),
        }
    }
}
