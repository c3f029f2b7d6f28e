//! Registration of nodes.

use std::sync::Arc;

use super::changed_if;
use crate::records::Node;
use crate::state::State;
use crate::{NodeId, Outcome, Rejection, Value};

impl State {
    pub(super) fn register_node(
        &mut self,
        id: NodeId,
        epoch: i64,
        http_address: &str,
        slots: u32,
    ) -> Outcome {
        let known = self.nodes.get(&id);
        if known.is_some_and(|known| known.epoch > epoch) {
            return Err(Rejection::NodeEpochMismatch { node: id });
        }
        let http_address = match known {
            Some(known) if http_address.is_empty() || *known.http_address == *http_address => {
                known.http_address.clone()
            }
            _ => Arc::from(http_address),
        };
        let node = Node {
            epoch,
            http_address,
            slots,
        };
        let changed = known != Some(&node);
        if changed {
            self.nodes.insert(id, node);
        }
        Ok(changed_if(changed, Value::Unit))
    }
}
