//! The size of source files.

use aedile_tests_workspace::{files, text};

/// The most lines of a source file.
const MOST: usize = 700;

#[test]
fn no_source_file_is_longer_than_a_reader_can_hold() {
    let sources: Vec<_> = ["host", "plugins", "examples", "tests"]
        .into_iter()
        .flat_map(files)
        .filter(|path| path.ends_with(".rs"))
        .collect();
    assert!(
        sources.len() > 30,
        "only {} files were found",
        sources.len()
    );
    let long: Vec<_> = sources
        .iter()
        .map(|path| (path, text(path).lines().count()))
        .filter(|(_, lines)| *lines > MOST)
        .collect();
    assert!(
        long.is_empty(),
        "files of more than {MOST} lines: {long:#?}"
    );
}
