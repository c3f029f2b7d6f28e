//! Bindings to `wit/`, and the types that a [`Host`](crate::Host) deals in.

// The generator writes no documentation for modules and traits.
#[allow(missing_docs, missing_debug_implementations, unreachable_pub)]
pub(crate) mod generated {
    wasmtime::component::bindgen!({
        path: "wit",
        world: "plugin",
        imports: {
            "aedile:maintenance/commands": async | trappable,
            "aedile:maintenance/storage": async | trappable,
            default: trappable,
        },
        exports: { default: async },
        additional_derives: [PartialEq],
    });
}

/// The types of the package `aedile:maintenance`, named as in `wit/`.
pub mod wit {
    pub use super::generated::aedile::maintenance::commands::{
        Compaction, Put, StreamAt, Transfer, Trim,
    };
    pub use super::generated::aedile::maintenance::logging::Level;
    pub use super::generated::aedile::maintenance::state::{
        Counts, KvEntry, Mark, Node, Object, ObjectKind, Reservation, Stream, StreamCursor,
        StreamObject,
    };
    pub use super::generated::aedile::maintenance::storage::{
        DeleteOutcome, Refusal, Stored, Sweep,
    };
    pub use super::generated::aedile::maintenance::types::{Answer, HostError, Operation};
    pub use super::generated::exports::aedile::maintenance::maintenance::{Failure, Report, Retry};
}
