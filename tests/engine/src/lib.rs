//! Hostile plugins, each contained.
//!
//! A guest is one file in `guests/` with one behaviour. [`guest`] makes a
//! module of it, [`Trial`] runs one tick of it against a [`Double`], and
//! `tests/corpus.rs` has a test for every file: a guest without one fails there.

mod build;
mod double;
mod memory;
mod trial;

pub use build::{Import, component, embed, guest, guests, imports, module, section};
pub use double::{Behaviour, Double};
pub use memory::{Peak, resident};
pub use trial::{Trial, engine, first, grants};
