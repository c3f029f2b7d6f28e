//! What the end-to-end tests share: the real binary as a child process, the
//! captured clusters unpacked into a directory of their own, and a ledger of
//! every byte in an object directory.

pub mod binary;
pub mod captured;
pub mod ledger;
pub mod wait;
