//! Object archives: what the rebuilt catalog calls live is what the captured
//! cluster kept. Sizes are not compared: a generated store states others.

use std::collections::BTreeSet;
use std::path::Path;

use crate::captures::{self, Capture};
use crate::database;
use crate::report::Report;
use crate::sql::Copy;

/// Checks the archive of the object directory beside a database.
pub fn check(capture: &Capture, database: &Path, report: &mut Report) {
    let state = match Copy::of(&captures::read(database))
        .tables()
        .and_then(|t| database::rebuild(&t))
    {
        Ok(rebuilt) => rebuilt.state,
        Err(why) => return report.fail(why),
    };
    let bytes = capture.bytes();
    let mut kept = BTreeSet::new();
    let mut archive = tar::Archive::new(bytes.as_slice());
    for entry in archive.entries().expect("an archive lists its entries") {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return report.fail(format!("as an archive: {error}")),
        };
        if let Ok(path) = entry.path() {
            kept.insert(path.to_string_lossy().into_owned());
        }
    }
    report.archives += 1;
    for object in state.objects_after(None) {
        let key = key(object.id.0);
        if kept.contains(&format!("objects/{key}")) {
            report.objects += 1;
        } else {
            report.fail(format!("live object {} has no bytes at {key}", object.id));
        }
    }
}

fn key(id: u64) -> String {
    let reversed: String = format!("{id:08x}").chars().rev().collect();
    format!("{reversed}/DEFAULT/{id}")
}
