//! Deletes of local files through the store, beside one after another.

use std::path::Path;
use std::time::Duration;

use aedile_storage::{DeleteOutcome, Store, StoreOptions, object_key};

use crate::median::{ROUNDS, clock, median, rate};

/// Objects in a round.
const OBJECTS: u64 = 20_000;

pub(crate) async fn run() -> anyhow::Result<()> {
    let clock = clock();
    let dir = tempfile::tempdir()?;
    let root = dir.path().join("objects");
    std::fs::create_dir(&root)?;
    let uri = format!("-2@file://{}", root.display()).parse()?;
    let store = Store::open(&uri, StoreOptions::default(), clock.clone())?;
    let ids: Vec<u64> = (0..OBJECTS).collect();
    let (mut through, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        fill(&root)?;
        let start = clock.boot();
        let outcomes = store.delete(&ids, &|| Some(Duration::from_secs(60))).await;
        through.push(rate(ids.len(), clock.boot().since(start)));
        anyhow::ensure!(
            outcomes
                .iter()
                .all(|(_, outcome)| *outcome == DeleteOutcome::Deleted),
            "every object must go"
        );
        fill(&root)?;
        let start = clock.boot();
        for &id in &ids {
            std::fs::remove_file(root.join(object_key(id)))?;
        }
        plain.push(rate(ids.len(), clock.boot().since(start)));
    }
    let (through, plain) = (median(through), median(plain));
    println!("delete, local files, one after another: {plain:.0} objects/s");
    println!(
        "delete, local files, through the store: {through:.0} objects/s, {:.2} times the baseline",
        through / plain
    );
    Ok(())
}

fn fill(root: &Path) -> anyhow::Result<()> {
    for id in 0..OBJECTS {
        let path = root.join(object_key(id));
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, b"object")?;
    }
    Ok(())
}
