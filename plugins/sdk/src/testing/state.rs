//! The pinned view, read.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::Host;
use crate::host::{Job, State};
use crate::{
    Counts, KvEntry, LogIndex, Mark, Node, NodeId, Object, ObjectId, Reservation, Stream,
    StreamCursor, StreamId, StreamObject,
};

/// The longest page, as with the real host.
const PAGE: u32 = 2000;

fn page(limit: u32) -> usize {
    limit.min(PAGE) as usize
}

/// Entries after a key.
fn after<K: Ord, V>(map: &BTreeMap<K, V>, key: Option<K>) -> impl Iterator<Item = (&K, &V)> {
    map.range((
        key.map_or(Bound::Unbounded, Bound::Excluded),
        Bound::Unbounded,
    ))
}

impl Host {
    fn lapsed(&self) -> Vec<Reservation> {
        let now = self.now();
        let lapsed = self.view.reservations.iter();
        let mut lapsed: Vec<_> = lapsed
            .filter(|(_, deadline)| **deadline <= now)
            .map(|(&id, &deadline)| Reservation { id, deadline })
            .collect();
        lapsed.sort_by_key(|reservation| (reservation.deadline, reservation.id));
        lapsed
    }

    fn turn_page(&self) {
        self.pages.set(self.pages.get() + 1);
    }
}

impl State for Host {
    fn applied_index(&self) -> LogIndex {
        self.index
    }

    fn sizes(&self) -> Counts {
        let view = &self.view;
        Counts {
            streams: view.streams.len() as u64,
            nodes: view.nodes.len() as u64,
            objects: view.objects.len() as u64,
            reservations: view.reservations.len() as u64,
            destroyed: view.destroyed.len() as u64,
            kv: view.kv.len() as u64,
        }
    }

    fn lapsed_reservations(&self, limit: u32) -> Vec<Reservation> {
        self.turn_page();
        let mut lapsed = self.lapsed();
        lapsed.truncate(page(limit));
        lapsed
    }

    fn lapsed_count(&self, limit: u32) -> u32 {
        u32::try_from(self.lapsed().len()).map_or(limit, |count| count.min(limit))
    }

    fn destroyed(&self, cursor: Option<u64>, limit: u32) -> Vec<Mark> {
        self.turn_page();
        after(&self.view.destroyed, cursor)
            .filter(|(_, (id, _))| !self.backed_off.contains(id))
            .take(page(limit))
            .map(|(&seq, &(id, operation))| Mark { seq, id, operation })
            .collect()
    }

    fn objects(&self, cursor: Option<ObjectId>, limit: u32) -> Vec<Object> {
        self.turn_page();
        let objects = after(&self.view.objects, cursor);
        objects
            .take(page(limit))
            .map(|(_, object)| *object)
            .collect()
    }

    fn object_ids(&self, cursor: Option<ObjectId>, limit: u32) -> Vec<ObjectId> {
        self.turn_page();
        let objects = after(&self.view.objects, cursor);
        objects.take(page(limit)).map(|(id, _)| *id).collect()
    }

    fn object(&self, id: ObjectId) -> Option<Object> {
        self.view.objects.get(&id).copied()
    }

    fn stream_objects(
        &self,
        id: StreamId,
        cursor: Option<StreamCursor>,
        limit: u32,
    ) -> Vec<StreamObject> {
        self.turn_page();
        let from = match cursor {
            Some(cursor) => Bound::Excluded((id, cursor.start_offset, cursor.id)),
            None => Bound::Included((id, 0, 0)),
        };
        let objects = self.view.stream_objects.range((from, Bound::Unbounded));
        objects
            .take_while(|((stream, ..), _)| *stream == id)
            .take(page(limit))
            .map(|(_, object)| *object)
            .collect()
    }

    fn streams(&self, cursor: Option<StreamId>, limit: u32) -> Vec<Stream> {
        self.turn_page();
        let streams = after(&self.view.streams, cursor);
        streams
            .take(page(limit))
            .map(|(_, stream)| *stream)
            .collect()
    }

    fn stream(&self, id: StreamId) -> Option<Stream> {
        self.view.streams.get(&id).copied()
    }

    fn nodes(&self, cursor: Option<NodeId>, limit: u32) -> Vec<Node> {
        self.turn_page();
        let nodes = after(&self.view.nodes, cursor);
        nodes
            .take(page(limit))
            .map(|(_, node)| node.clone())
            .collect()
    }

    fn kv_get(&self, key: &str) -> Option<Vec<u8>> {
        self.view.kv.get(key).cloned()
    }

    fn kv_scan(&self, prefix: &str, cursor: Option<&str>, limit: u32) -> Vec<KvEntry> {
        self.turn_page();
        let from = match cursor {
            Some(key) if key >= prefix => Bound::Excluded(key),
            _ => Bound::Included(prefix),
        };
        let entries = self.view.kv.range::<str, _>((from, Bound::Unbounded));
        entries
            .take_while(|(key, _)| key.starts_with(prefix))
            .take(page(limit))
            .map(|(key, value)| KvEntry {
                key: key.clone(),
                value: value.clone(),
            })
            .collect()
    }

    fn kv_keys(&self, prefix: &str, cursor: Option<&str>, limit: u32) -> Vec<String> {
        let entries = self.kv_scan(prefix, cursor, limit);
        entries.into_iter().map(|entry| entry.key).collect()
    }
}
