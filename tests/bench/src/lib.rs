//! Benchmarks: what the product does beside a baseline in the same run, against
//! the bar that it must hold.
//!
//! Runs of product and baseline alternate, so that a machine's noise hits both;
//! a figure is the median of its runs. One file below `figures` holds one
//! benchmark; [`ALL`] lists them. `native/` builds the cleaner's source against
//! the host's own types, so that it runs without the Wasm boundary.
//!
//! Nothing here decides a test: a bar that does not hold is printed, and the
//! only test is that each benchmark runs and yields its figures.

mod bare;
pub mod child;
mod cleaning;
mod context;
mod database;
mod figure;
mod figures;
mod measure;
mod native;
mod polling;
mod report;
mod stores;
mod waiting;
mod world;

pub use context::{Context, Scale};
pub use figure::{Bar, Figure, Samples, Unit};
pub use figures::{ALL, Bench};
pub use report::{Page, table};
