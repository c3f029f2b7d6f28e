//! Writes what is generated from the contract: `make generated`.

use std::fs;

use aedile_tests_workspace::{contract, root};

fn main() -> std::io::Result<()> {
    for (path, bytes) in contract::generated() {
        fs::write(root().join(path), bytes)?;
    }
    Ok(())
}
