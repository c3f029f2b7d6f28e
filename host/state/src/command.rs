//! The 18 commands of the log.

use crate::{NodeId, ObjectId, StreamId};

/// What happens to the bytes of an object in the destroyed queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// The object's bytes go. Of a composite: only its own.
    Delete,
    /// Only the catalog forgets the object; a composite links its bytes.
    KeepData,
    /// The object's bytes go, and those of every object it links.
    DeepDelete,
}

impl Operation {
    /// The byte that stands for the operation in commands and snapshots.
    pub const fn code(self) -> u8 {
        match self {
            Self::Delete => 0,
            Self::KeepData => 1,
            Self::DeepDelete => 2,
        }
    }

    /// The operation of a byte; `None` if no operation has it.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Delete),
            1 => Some(Self::KeepData),
            2 => Some(Self::DeepDelete),
            _ => None,
        }
    }

    /// The operation's name as PicoMQ prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Delete => "Delete",
            Self::KeepData => "KeepData",
            Self::DeepDelete => "DeepDelete",
        }
    }
}

/// The part of one stream that a stream-set object holds, in a commit request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitRange {
    /// The stream.
    pub stream: StreamId,
    /// The stream's epoch as the writer knew it; not checked.
    pub epoch: u64,
    /// First offset held.
    pub start_offset: u64,
    /// Offset after the last one held.
    pub end_offset: u64,
    /// Bytes of this part.
    pub size: u64,
}

/// A stream object that a commit request adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitStreamObject {
    /// The new object.
    pub object: ObjectId,
    /// Its bytes.
    pub object_size: u64,
    /// The stream it belongs to.
    pub stream: StreamId,
    /// First offset held.
    pub start_offset: u64,
    /// Offset after the last one held.
    pub end_offset: u64,
    /// Attribute bits, see [`is_composite`](crate::is_composite).
    pub attributes: u32,
}

/// What a `CommitStreamSetObject` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRequest {
    /// The new stream-set object, or [`NOOP`](crate::NOOP).
    pub object: ObjectId,
    /// Its bytes.
    pub object_size: u64,
    /// Its attribute bits.
    pub attributes: u32,
    /// What it holds of which streams; ignored without an object.
    pub ranges: Vec<CommitRange>,
    /// The stream objects that come with it.
    pub stream_objects: Vec<CommitStreamObject>,
    /// The stream-set objects whose data the new ones hold; they leave the
    /// catalog and are marked.
    pub compacted: Vec<ObjectId>,
}

/// What a `CompactStreamObject` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactRequest {
    /// The new stream object, or [`NOOP`](crate::NOOP) to add none.
    pub object: ObjectId,
    /// Its bytes.
    pub object_size: u64,
    /// The stream.
    pub stream: StreamId,
    /// The stream's epoch.
    pub stream_epoch: u64,
    /// First offset held; not below the stream's start offset.
    pub start_offset: u64,
    /// Offset after the last one held; not above the stream's end offset.
    pub end_offset: u64,
    /// Attribute bits of the new object.
    pub attributes: u32,
    /// The objects that leave the catalog. Each is marked, whatever it is:
    /// also one that is unknown or that another stream holds live.
    pub sources: Vec<ObjectId>,
    /// One operation for each source; empty means all `Delete`.
    pub operations: Vec<Operation>,
}

/// One command of the log. Commands are applied one by one and carry every
/// input they need, the time included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Type 1: a new stream at the next stream id.
    CreateStream {
        /// The node that asks.
        node: NodeId,
        /// Its registered epoch.
        node_epoch: i64,
    },
    /// Type 2: the node opens the stream at an epoch.
    OpenStream {
        /// The node that asks.
        node: NodeId,
        /// Its registered epoch.
        node_epoch: i64,
        /// The stream.
        stream: StreamId,
        /// The stream's new epoch.
        epoch: i64,
    },
    /// Type 3: the stream's start offset moves up. Marks no object.
    TrimStream {
        /// The node that asks.
        node: NodeId,
        /// Its registered epoch.
        node_epoch: i64,
        /// The stream.
        stream: StreamId,
        /// The stream's epoch.
        epoch: i64,
        /// The new start offset.
        new_start_offset: u64,
    },
    /// Type 4: the node closes the stream.
    CloseStream {
        /// The node that asks.
        node: NodeId,
        /// Its registered epoch.
        node_epoch: i64,
        /// The stream.
        stream: StreamId,
        /// The stream's epoch.
        epoch: i64,
    },
    /// Type 5: the closed stream goes; its stream objects are marked.
    DeleteStream {
        /// The node that asks.
        node: NodeId,
        /// Its registered epoch.
        node_epoch: i64,
        /// The stream.
        stream: StreamId,
        /// The stream's epoch.
        epoch: i64,
    },
    /// Type 6: reserves consecutive object ids for uploads.
    PrepareObject {
        /// The node that asks.
        node: NodeId,
        /// Its registered epoch.
        node_epoch: i64,
        /// How many ids.
        count: u32,
        /// Milliseconds that the reservation lasts; negative counts as 0.
        ttl_ms: i64,
        /// Unix milliseconds.
        now_ms: i64,
    },
    /// Type 7: puts uploaded objects into the catalog and takes compacted
    /// stream-set objects out of it.
    CommitStreamSetObject {
        /// The node that asks.
        node: NodeId,
        /// Its registered epoch.
        node_epoch: i64,
        /// Unix milliseconds.
        now_ms: i64,
        /// What is committed.
        request: CommitRequest,
    },
    /// Type 8: replaces stream objects of one stream by a new one, or by none.
    CompactStreamObject {
        /// The node that asks.
        node: NodeId,
        /// Its registered epoch.
        node_epoch: i64,
        /// Unix milliseconds.
        now_ms: i64,
        /// What is compacted.
        request: CompactRequest,
    },
    /// Type 9: reservations whose deadline has come end. Marks nothing.
    ExpirePreparedObjects {
        /// Unix milliseconds.
        now_ms: i64,
    },
    /// Type 10: a node announces itself.
    RegisterNode {
        /// The node.
        node: NodeId,
        /// Its epoch; must not go back.
        node_epoch: i64,
        /// Where it answers; empty keeps what is known.
        http_address: String,
        /// Its share of placed streams.
        slots: u32,
    },
    /// Type 11: marks leave the destroyed queue.
    CleanDestroyedObjects {
        /// The marked objects; others are ignored.
        objects: Vec<ObjectId>,
    },
    /// Type 12: sets a key.
    PutKv {
        /// The key.
        key: String,
        /// Its new value.
        value: Vec<u8>,
    },
    /// Type 13: sets a key that is absent.
    PutKvIfAbsent {
        /// The key.
        key: String,
        /// Its value if it has none.
        value: Vec<u8>,
    },
    /// Type 14: removes a key.
    DeleteKv {
        /// The key.
        key: String,
    },
    /// Type 15: asks that an open stream move to another node.
    TransferStream {
        /// The stream.
        stream: StreamId,
        /// The node that has it open.
        from: NodeId,
        /// The node that shall own it.
        to: NodeId,
    },
    /// Type 16: the closed stream's owner becomes the transfer's target.
    CompleteTransfer {
        /// The stream.
        stream: StreamId,
        /// The stream's epoch.
        epoch: i64,
    },
    /// Type 17: up to 4096 new streams at consecutive ids.
    CreateStreams {
        /// The node that asks.
        node: NodeId,
        /// Its registered epoch.
        node_epoch: i64,
        /// How many streams.
        count: u32,
    },
    /// Type 18: chooses a node for a stream that was never opened.
    PlaceStream {
        /// The stream.
        stream: StreamId,
    },
}

impl Command {
    /// The command's name as PicoMQ prints it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::CreateStream { .. } => "CreateStream",
            Self::OpenStream { .. } => "OpenStream",
            Self::TrimStream { .. } => "TrimStream",
            Self::CloseStream { .. } => "CloseStream",
            Self::DeleteStream { .. } => "DeleteStream",
            Self::PrepareObject { .. } => "PrepareObject",
            Self::CommitStreamSetObject { .. } => "CommitStreamSetObject",
            Self::CompactStreamObject { .. } => "CompactStreamObject",
            Self::ExpirePreparedObjects { .. } => "ExpirePreparedObjects",
            Self::RegisterNode { .. } => "RegisterNode",
            Self::CleanDestroyedObjects { .. } => "CleanDestroyedObjects",
            Self::PutKv { .. } => "PutKv",
            Self::PutKvIfAbsent { .. } => "PutKvIfAbsent",
            Self::DeleteKv { .. } => "DeleteKv",
            Self::TransferStream { .. } => "TransferStream",
            Self::CompleteTransfer { .. } => "CompleteTransfer",
            Self::CreateStreams { .. } => "CreateStreams",
            Self::PlaceStream { .. } => "PlaceStream",
        }
    }
}
