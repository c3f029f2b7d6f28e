//! The runtime on real parts: a SQLite log, a directory of objects, a real
//! keeper and the modules that ship.

pub(crate) mod cluster;
mod divergence;
mod expiry;
mod fence;
mod parking;
mod pass;
mod plugin_directory;
mod supervision;
