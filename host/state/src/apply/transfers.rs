//! Moving an open stream to another node: asked for first, completed once the
//! stream is closed.

use super::{changed, unchanged, unexpected};
use crate::records::StreamState;
use crate::state::{State, StreamRow};
use crate::{NodeId, Outcome, Rejection, StreamId, Value};

impl State {
    pub(super) fn transfer_stream(
        &mut self,
        stream: StreamId,
        from: NodeId,
        to: NodeId,
    ) -> Outcome {
        let row = self.existing_stream(stream)?;
        if let Some(&pending) = self.transfers.get(&stream) {
            return if pending == (from, to) {
                Ok(unchanged(Value::Unit))
            } else {
                unexpected("another transfer of the stream is pending")
            };
        }
        if from == to {
            return unexpected("a transfer needs two nodes");
        }
        if self.nodes.get(&to).is_none_or(|node| node.slots < 1) {
            return Err(Rejection::NodeEpochMismatch { node: to });
        }
        if row.state != StreamState::Opened || row.node != from {
            return unexpected("the stream is not open on the node that it is to leave");
        }
        self.transfers.insert(stream, (from, to));
        Ok(changed(Value::Unit))
    }

    pub(super) fn complete_transfer(&mut self, stream: StreamId, epoch: i64) -> Outcome {
        let Some(&(_, to)) = self.transfers.get(&stream) else {
            return Err(Rejection::Redundant);
        };
        let row = self.existing_stream(stream)?;
        if row.state != StreamState::Closed {
            return Err(Rejection::StreamNotClosed { stream });
        }
        if row.epoch != epoch {
            return Err(Rejection::ExpiredEpoch { stream, epoch });
        }
        self.streams.insert(stream, StreamRow { node: to, ..row });
        self.transfers.remove(&stream);
        Ok(changed(Value::Unit))
    }
}
