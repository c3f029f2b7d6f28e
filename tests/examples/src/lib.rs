//! The examples in `examples/` and the guest layers in `sdk/`: each is built
//! with the toolchain of its language, as its README says, and run by the
//! runtime of production on a cluster that PicoMQ wrote.
//!
//! A toolchain that is not there is a failure that names what to install;
//! `.ci/setup test` installs all of them.

mod build;
mod census;
mod stage;
mod toolchain;

pub use build::{Language, module};
pub use census::{Census, expected};
pub use stage::{Stage, engine};
pub use toolchain::{Toolchain, guests, installed, root, run};
