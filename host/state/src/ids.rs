//! The identifiers of the catalog, each a type of its own.

use std::fmt;

/// The object id that means "no object" in requests (2^64 − 1).
pub const NOOP: ObjectId = ObjectId(u64::MAX);

/// An object in storage: a stream-set object, a stream object, a reservation
/// or a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub u64);

/// A stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// A node of the cluster. Orders as a signed number; −1 in a stream's row
/// means that no node owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub i32);

impl NodeId {
    /// The owner of a stream that no node owns.
    pub const NONE: NodeId = NodeId(-1);
}

macro_rules! display_as_number {
    ($($id:ident),*) => {$(
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

display_as_number!(ObjectId, StreamId, NodeId);
