//! The command line of Aedile.

fn main() {}
