//! Object ids that are promised to an upload.

use super::{changed, changed_if, unexpected};
use crate::state::State;
use crate::{Applied, ObjectId, Outcome, Value};

impl State {
    pub(super) fn prepare_objects(&mut self, count: u32, deadline_ms: i64) -> Outcome {
        if count == 0 {
            return unexpected("the number of objects to prepare must be positive");
        }
        let first = self.next_object_id;
        self.next_object_id = first.wrapping_add(u64::from(count));
        // As PicoMQ: a range of ids that wraps round holds none of them.
        for id in first..self.next_object_id {
            self.prepared.insert(ObjectId(id), deadline_ms);
            self.prepared_by_deadline
                .insert((deadline_ms, ObjectId(id)));
        }
        Ok(changed(Value::Id(first)))
    }

    pub(super) fn expire_prepared(&mut self, now_ms: i64) -> Applied {
        let mut ended = 0;
        while let Some(&(deadline, object)) = self.prepared_by_deadline.get_min()
            && deadline <= now_ms
        {
            self.prepared_by_deadline.remove(&(deadline, object));
            self.prepared.remove(&object);
            ended += 1;
        }
        changed_if(ended > 0, Value::Count(ended))
    }

    /// Ends a reservation that an upload has made good; that there is none is
    /// no error. Says whether there was one.
    pub(super) fn end_reservation(&mut self, object: ObjectId) -> bool {
        match self.prepared.remove(&object) {
            Some(deadline) => {
                self.prepared_by_deadline.remove(&(deadline, object));
                true
            }
            None => false,
        }
    }
}
