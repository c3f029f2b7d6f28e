//! What the end-to-end tests share: the real binary as a child process, the
//! captured clusters unpacked into a directory of their own, clusters made for
//! a test, a ledger of every byte in an object directory, and a look at a
//! database from outside.

pub mod binary;
pub mod captured;
pub mod cluster;
pub mod ledger;
pub mod operator;
pub mod outside;
pub mod place;
pub mod site;
pub mod three;
pub mod wait;
