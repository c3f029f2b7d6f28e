//! Objects entering and leaving the catalog, with all that is derived from
//! them.

use crate::ObjectId;
use crate::records::is_composite;
use crate::state::{State, StreamObject, StreamObjectKey, StreamSetObject};

impl State {
    /// Puts a stream object at its key, over one that is there.
    pub(super) fn insert_stream_object(&mut self, key: StreamObjectKey, object: StreamObject) {
        self.stream_object_ids
            .insert(key.object, (key.stream, key.start_offset));
        if let Some(before) = self.stream_objects.insert(key, object) {
            self.account_out(key.object, before.size, before.attributes);
        }
        self.account_in(key.object, object.size, object.attributes);
    }

    pub(super) fn remove_stream_object(&mut self, key: StreamObjectKey) {
        let removed = self.stream_objects.remove(&key);
        self.stream_object_ids.remove(&key.object);
        if let Some(removed) = removed {
            self.account_out(key.object, removed.size, removed.attributes);
        }
    }

    /// Puts a stream-set object at its id, over one that is there.
    pub(super) fn insert_stream_set(&mut self, id: ObjectId, object: StreamSetObject) {
        let (size, attributes) = (object.size, object.attributes);
        if let Some(before) = self.stream_sets.insert(id, object) {
            self.account_out(id, before.size, before.attributes);
        }
        self.account_in(id, size, attributes);
    }

    pub(super) fn remove_stream_set(&mut self, id: ObjectId) {
        if let Some(removed) = self.stream_sets.remove(&id) {
            self.account_out(id, removed.size, removed.attributes);
        }
    }

    fn account_in(&mut self, id: ObjectId, size: u64, attributes: u32) {
        self.live_bytes += u128::from(size);
        if is_composite(attributes) {
            self.composites.insert(id);
        }
    }

    /// Called once the object has left its map: whether the id is still that
    /// of a composite is read from what remains.
    fn account_out(&mut self, id: ObjectId, size: u64, attributes: u32) {
        self.live_bytes -= u128::from(size);
        if is_composite(attributes)
            && !self
                .object(id)
                .is_some_and(|object| is_composite(object.attributes))
        {
            self.composites.remove(&id);
        }
    }

    /// Derives the composites and the bytes from the objects, all at once.
    pub(crate) fn account_all(&mut self) {
        let sets = self
            .stream_sets
            .iter()
            .map(|(&id, row)| (id, row.size, row.attributes));
        let streams = self
            .stream_objects
            .iter()
            .map(|(key, row)| (key.object, row.size, row.attributes));
        let mut bytes = 0;
        let mut composites = Vec::new();
        for (id, size, attributes) in sets.chain(streams) {
            bytes += u128::from(size);
            if is_composite(attributes) {
                composites.push(id);
            }
        }
        composites.sort_unstable();
        self.live_bytes = bytes;
        self.composites = composites.into_iter().collect();
    }
}
