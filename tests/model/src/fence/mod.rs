//! The log: appends that are fenced by a term, snapshots, and a PicoMQ node that
//! appends as it always did. No time passes here: a term may end at any moment,
//! and its holder never notices by itself.

mod client;
mod commands;
mod database;
mod model;
mod properties;
mod setup;
mod tailer;
mod world;

pub use client::{Client, Pending, Settling};
pub use database::{Append, Database, Lease, NATIVE, Node, Place, Refusal, Row, Stage};
pub use model::{Action, FenceModel};
pub use properties::name;
pub use setup::{Setup, Variant};
pub use tailer::Tailer;
pub use world::{Breaches, Budget, World};
