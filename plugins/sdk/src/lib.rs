//! Write maintenance plugins for Aedile in Rust.
//!
//! A plugin is a type that implements [`Plugin`]: a manifest, a configuration
//! and a [`tick`](Plugin::tick). The host calls it on the node that holds the
//! lease, each time in a fresh instance: nothing is remembered from tick to
//! tick except in the replicated key-value map.
//!
//! ```
//! use aedile_plugin::{Failure, Host, Plugin, Report};
//! use serde::Deserialize;
//!
//! struct Census;
//!
//! #[derive(Deserialize)]
//! #[serde(deny_unknown_fields)]
//! struct Config {}
//!
//! impl Plugin for Census {
//!     type Config = Config;
//!     // Usually `include_str!("../manifest.json")`.
//!     const MANIFEST: &'static str = r#"{
//!         "name": "census",
//!         "version": "0.1.0",
//!         "grants": ["state", "metrics"],
//!         "schedule": { "interval": "1m" }
//!     }"#;
//!
//!     fn tick(host: &mut impl Host, _config: &Config) -> Result<Report, Failure> {
//!         host.gauge("objects", host.sizes().objects as f64);
//!         Ok(Report::idle())
//!     }
//! }
//!
//! aedile_plugin::export!(Census);
//!
//! // Natively, in a test:
//! let mut host = aedile_plugin::testing::Host::new("census");
//! let report = host.tick::<Census>("{}").expect("the tick succeeds");
//! assert_eq!(report, Report::idle());
//! ```
//!
//! Built as a `cdylib` for `wasm32-unknown-unknown`, that is a module which a
//! host takes as it is. Its imports are the functions that it calls, no more.
//!
//! Reading order: [`Plugin`], [`host`] (what a tick sees), [`testing`] (how to
//! test it), [`duration`] (durations in a configuration).

pub mod bindings;
pub mod duration;
#[doc(hidden)]
pub mod guest;
pub mod host;
pub mod imports;
mod plugin;
pub mod testing;

pub use crate::host::{Commands, Host, Job, Logging, Metrics, State, Storage};
pub use crate::plugin::Plugin;

pub use bindings::aedile::maintenance::commands::{Compaction, Put, StreamAt, Transfer, Trim};
pub use bindings::aedile::maintenance::logging::Level;
pub use bindings::aedile::maintenance::state::{
    Counts, KvEntry, Mark, Node, Object, ObjectKind, Reservation, Stream, StreamCursor,
    StreamObject,
};
pub use bindings::aedile::maintenance::storage::{DeleteOutcome, Refusal, Stored, Sweep};
pub use bindings::aedile::maintenance::types::{
    Answer, HostError, LogIndex, NodeId, ObjectId, Operation, StreamId, TimestampMs,
};
pub use bindings::exports::aedile::maintenance::maintenance::{Failure, Report, Retry};
