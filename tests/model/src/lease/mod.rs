//! The lease: two nodes of Aedile, whose keepers are the real
//! [`aedile_lease::protocol`], contend for one row, perhaps beside a PicoMQ node.

mod database;
mod model;
mod native;
mod node;
mod properties;
mod setup;
mod world;

pub use model::{Action, LeaseModel};
pub use native::Native;
pub use node::{Node, Window};
pub use properties::name;
pub use setup::{Setup, Variant};
pub use world::{Breaches, Budget, World};
