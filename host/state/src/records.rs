//! What the catalog knows of a stream, a node and an object.

use std::sync::Arc;

use crate::{NodeId, ObjectId, StreamId};

/// Whether a node has a stream open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamState {
    /// No node has it open.
    Closed,
    /// The stream's node has it open.
    Opened,
}

/// A stream's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The stream.
    pub id: StreamId,
    /// −1 until it is first opened; each open raises it.
    pub epoch: i64,
    /// The first offset that readers may ask for.
    pub start_offset: u64,
    /// The offset after the last committed one.
    pub end_offset: u64,
    /// Closed or opened.
    pub state: StreamState,
    /// Its owner, or [`NodeId::NONE`].
    pub node: NodeId,
}

/// A node's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The epoch it last registered with.
    pub epoch: i64,
    /// Where it answers HTTP.
    pub http_address: Arc<str>,
    /// Its share of placed streams; 0 takes none.
    pub slots: u32,
}

/// The kinds of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// Holds parts of many streams.
    StreamSet,
    /// Holds a part of one stream.
    Stream,
}

/// A part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The stream.
    pub stream: StreamId,
    /// First offset.
    pub start_offset: u64,
    /// Offset after the last one.
    pub end_offset: u64,
}

/// A live object as the queries show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// The object.
    pub id: ObjectId,
    /// Which of the two catalogs holds it.
    pub kind: ObjectKind,
    /// The node that committed it; only of stream-set objects.
    pub node: Option<NodeId>,
    /// Bytes. Of a composite: those of all the blocks it links.
    pub size: u64,
    /// Attribute bits.
    pub attributes: u32,
    /// Unix milliseconds of the commit.
    pub committed_ms: i64,
    /// Unix milliseconds of the oldest data in it.
    pub data_ms: i64,
    /// What it holds, in the order of the commit. A stream object has one.
    pub ranges: Ranges,
}

/// The ranges of one object. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Ranges {
    /// A stream object's only range.
    One(Range),
    /// A stream-set object's ranges.
    Many(Arc<[Range]>),
}

impl Ranges {
    /// The ranges in the order of the commit.
    pub fn as_slice(&self) -> &[Range] {
        match self {
            Self::One(range) => std::slice::from_ref(range),
            Self::Many(ranges) => ranges,
        }
    }
}

impl PartialEq for Ranges {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Ranges {}

impl std::ops::Deref for Ranges {
    type Target = [Range];

    fn deref(&self) -> &[Range] {
        self.as_slice()
    }
}

/// Whether the attribute bits say that the object is a composite: it holds
/// links to other objects instead of data.
pub const fn is_composite(attributes: u32) -> bool {
    attributes & 0b11 == 1
}

/// The bucket id in the attribute bits: bits 2 to 17, two's complement.
pub const fn bucket(attributes: u32) -> i16 {
    (attributes >> 2) as u16 as i16
}
