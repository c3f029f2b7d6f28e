//! The destroyed queue.

use crate::state::State;
use crate::{Applied, Changes, ObjectId, Operation, Value};

impl State {
    /// Marks an object. One that is marked already keeps its place and gets
    /// the new operation. Answers the operation it had.
    pub(super) fn mark_destroyed(
        &mut self,
        object: ObjectId,
        operation: Operation,
    ) -> Option<Operation> {
        if let Some(&seq) = self.marked.get(&object) {
            let before = self.marks.insert(seq, (object, operation));
            return before.map(|(_, operation)| operation);
        }
        let seq = self.next_destroyed_seq;
        self.next_destroyed_seq = seq.wrapping_add(1);
        self.marks.insert(seq, (object, operation));
        self.marked.insert(object, seq);
        None
    }

    pub(super) fn clean_destroyed(&mut self, objects: &[ObjectId]) -> Applied {
        let cleaned: Box<[bool]> = objects.iter().map(|&object| self.unmark(object)).collect();
        let count = cleaned.iter().filter(|&&cleaned| cleaned).count();
        let changes = match count {
            0 => Changes::None,
            _ if count == cleaned.len() => Changes::All,
            _ => Changes::Items(cleaned),
        };
        Applied {
            value: Value::Unit,
            changes,
        }
    }

    fn unmark(&mut self, object: ObjectId) -> bool {
        match self.marked.remove(&object) {
            Some(seq) => {
                self.marks.remove(&seq);
                true
            }
            None => false,
        }
    }
}
