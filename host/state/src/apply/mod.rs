//! Applying a command: first every check, in the order that decides which
//! error is answered, then the changes, which cannot fail. So an error leaves
//! the state as before without a copy to fall back to.

mod catalog;
mod commit;
mod compact;
mod kv;
mod nodes;
mod queue;
mod reservations;
mod streams;
mod transfers;

use crate::state::{State, StreamRow};
use crate::{Applied, Changes, Command, NodeId, Outcome, Rejection, StreamId, Value};

impl State {
    /// Applies one command. On an error the state is as before.
    ///
    /// The same state and command give the same state and answer everywhere,
    /// PicoMQ included.
    pub fn apply(&mut self, command: &Command) -> Outcome {
        match *command {
            Command::CreateStream { node, node_epoch } => {
                self.check_node(node, node_epoch)?;
                self.create_stream()
            }
            Command::CreateStreams {
                node,
                node_epoch,
                count,
            } => {
                self.check_node(node, node_epoch)?;
                self.create_streams(count)
            }
            Command::OpenStream {
                node,
                node_epoch,
                stream,
                epoch,
            } => {
                self.check_node(node, node_epoch)?;
                self.open_stream(node, stream, epoch)
            }
            Command::TrimStream {
                node,
                node_epoch,
                stream,
                epoch,
                new_start_offset,
            } => {
                self.check_node(node, node_epoch)?;
                self.trim_stream(stream, epoch, new_start_offset)
            }
            Command::CloseStream {
                node,
                node_epoch,
                stream,
                epoch,
            } => {
                self.check_node(node, node_epoch)?;
                self.close_stream(stream, epoch)
            }
            Command::DeleteStream {
                node,
                node_epoch,
                stream,
                epoch,
            } => {
                self.check_node(node, node_epoch)?;
                self.delete_stream(stream, epoch)
            }
            Command::PlaceStream { stream } => self.place_stream(stream),
            Command::TransferStream { stream, from, to } => self.transfer_stream(stream, from, to),
            Command::CompleteTransfer { stream, epoch } => self.complete_transfer(stream, epoch),
            Command::RegisterNode {
                node,
                node_epoch,
                ref http_address,
                slots,
            } => self.register_node(node, node_epoch, http_address, slots),
            Command::PrepareObject {
                node,
                node_epoch,
                count,
                ttl_ms,
                now_ms,
            } => {
                self.check_node(node, node_epoch)?;
                self.prepare_objects(count, now_ms.wrapping_add(ttl_ms.max(0)))
            }
            Command::ExpirePreparedObjects { now_ms } => Ok(self.expire_prepared(now_ms)),
            Command::CommitStreamSetObject {
                node,
                node_epoch,
                now_ms,
                ref request,
            } => {
                self.check_node(node, node_epoch)?;
                self.commit(node, now_ms, request)
            }
            Command::CompactStreamObject {
                node,
                node_epoch,
                now_ms,
                ref request,
            } => {
                self.check_node(node, node_epoch)?;
                self.compact(now_ms, request)
            }
            Command::CleanDestroyedObjects { ref objects } => Ok(self.clean_destroyed(objects)),
            Command::PutKv { ref key, ref value } => Ok(self.put_kv(key, value)),
            Command::PutKvIfAbsent { ref key, ref value } => Ok(self.put_kv_if_absent(key, value)),
            Command::DeleteKv { ref key } => Ok(self.delete_kv(key)),
        }
    }

    /// A node may ask for something only at the epoch that it registered.
    fn check_node(&self, node: NodeId, epoch: i64) -> Result<(), Rejection> {
        match self.nodes.get(&node) {
            Some(known) if known.epoch == epoch => Ok(()),
            _ => Err(Rejection::NodeEpochMismatch { node }),
        }
    }

    fn existing_stream(&self, stream: StreamId) -> Result<StreamRow, Rejection> {
        self.streams
            .get(&stream)
            .copied()
            .ok_or(Rejection::StreamNotExist { stream })
    }
}

fn unexpected<T>(what: &'static str) -> Result<T, Rejection> {
    Err(Rejection::Unexpected { what })
}

/// The answer of a command that changed the state.
fn changed(value: Value) -> Applied {
    Applied {
        value,
        changes: Changes::All,
    }
}

/// The answer of a command that found all as it wants it.
fn unchanged(value: Value) -> Applied {
    Applied {
        value,
        changes: Changes::None,
    }
}

fn changed_if(changed: bool, value: Value) -> Applied {
    Applied {
        value,
        changes: if changed { Changes::All } else { Changes::None },
    }
}
