//! The runtime on real parts: a SQLite log, a directory of objects, a real
//! keeper and the modules that ship.

mod cluster;
mod pass;
mod plugin_directory;
mod supervision;
