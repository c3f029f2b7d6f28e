//! Every byte of an object directory, by key.

use std::collections::BTreeMap;
use std::path::Path;

use sha2::{Digest, Sha256};

/// Key to the hash of its bytes.
pub type Ledger = BTreeMap<String, [u8; 32]>;

/// Read a whole object directory.
pub fn read(root: &Path) -> Ledger {
    let mut ledger = Ledger::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the object directory can be read") {
            let path = entry.expect("a directory entry can be read").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let key = path
                .strip_prefix(root)
                .expect("an entry lies below its root")
                .to_string_lossy()
                .into_owned();
            let bytes = std::fs::read(&path).expect("an object can be read");
            ledger.insert(key, Sha256::digest(&bytes).into());
        }
    }
    ledger
}
