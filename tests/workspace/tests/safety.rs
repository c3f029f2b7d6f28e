//! What `docs/safety.md` claims: every test that it names is there, and every
//! test that is named after a public bug is in its list.

use std::collections::BTreeSet;

use aedile_tests_workspace::{files, root, text};

/// The names between backticks in table rows. `name_*` stands for every test
/// that begins so.
fn quoted(page: &str) -> BTreeSet<&str> {
    page.lines()
        .filter(|line| line.starts_with('|'))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

/// Whether a quoted text is the name of a test, or the beginning of some.
fn names_a_test(quoted: &str) -> bool {
    let name = quoted.trim_end_matches('*');
    name.split('_').filter(|word| !word.is_empty()).count() > 1
        && name
            .chars()
            .all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_')
}

/// The names of all functions in tests and beside the code.
fn functions() -> BTreeSet<String> {
    ["host", "plugins", "examples", "tests"]
        .into_iter()
        .filter(|folder| root().join(folder).is_dir())
        .flat_map(files)
        .filter(|path| path.ends_with(".rs"))
        .flat_map(|path| {
            text(&path)
                .lines()
                .filter_map(|line| {
                    let (_, rest) = line.split_once("fn ")?;
                    let end =
                        rest.find(|char: char| !char.is_ascii_alphanumeric() && char != '_')?;
                    Some(rest[..end].to_owned())
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn every_test_that_is_named_is_there() {
    let page = text("docs/safety.md");
    let functions = functions();
    let named: Vec<_> = quoted(&page)
        .into_iter()
        .filter(|name| names_a_test(name))
        .collect();
    assert!(named.len() > 20, "only {} tests are named", named.len());
    let missing: Vec<_> = named
        .into_iter()
        .filter(|name| match name.strip_suffix('*') {
            Some(beginning) => !functions.iter().any(|name| name.starts_with(beginning)),
            None => !functions.contains(*name),
        })
        .collect();
    assert!(
        missing.is_empty(),
        "docs/safety.md names tests that are not there: {missing:#?}"
    );
}

#[test]
fn every_test_that_is_named_after_a_public_bug_is_listed() {
    let page = text("docs/safety.md");
    let quoted = quoted(&page);
    let listed: Vec<&str> = quoted
        .iter()
        .filter_map(|name| name.strip_suffix('*'))
        .collect();
    let projects: BTreeSet<&str> = listed
        .iter()
        .filter_map(|beginning| beginning.trim_end_matches('_').rsplit_once('_'))
        .map(|(project, _)| project)
        .collect();
    assert!(
        projects.len() > 10,
        "only {} projects are listed",
        projects.len()
    );
    let unlisted: Vec<String> = functions()
        .into_iter()
        .filter(|name| {
            projects.iter().any(|project| {
                name.strip_prefix(project)
                    .and_then(|rest| rest.strip_prefix('_'))
                    .is_some_and(|rest| rest.starts_with(|char: char| char.is_ascii_digit()))
            })
        })
        .filter(|name| !listed.iter().any(|beginning| name.starts_with(beginning)))
        .collect();
    assert!(
        unlisted.is_empty(),
        "tests that docs/safety.md does not list: {unlisted:#?}"
    );
}
