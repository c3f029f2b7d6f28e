//! Every crate that is built in comes under a licence that we may ship.

use std::collections::BTreeSet;

use cargo_metadata::MetadataCommand;

/// As `deny.toml` has them.
fn allowed() -> BTreeSet<String> {
    let deny = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deny.toml"))
        .expect("deny.toml can be read");
    let list = deny
        .split_once("allow = [")
        .and_then(|(_, rest)| rest.split_once(']'))
        .expect("deny.toml lists the licences")
        .0;
    list.split(',')
        .map(|licence| licence.trim().trim_matches('"').to_owned())
        .filter(|licence| !licence.is_empty())
        .collect()
}

/// Whether an SPDX expression can be satisfied: of an `OR` one part, of an
/// `AND` every part. Older crates write `/` for `OR`.
fn satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.replace('/', " OR ");
    expression.split(" AND ").all(|part| {
        part.trim_matches(['(', ')', ' '])
            .split(" OR ")
            .any(|licence| allowed.contains(licence.trim_matches(['(', ')', ' ', '+'])))
    })
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let allowed = allowed();
    assert!(allowed.contains("Apache-2.0"));
    for manifest in ["../../Cargo.toml", "../../plugins/Cargo.toml"] {
        let path = format!("{}/{manifest}", env!("CARGO_MANIFEST_DIR"));
        let metadata = MetadataCommand::new()
            .manifest_path(path)
            .exec()
            .expect("cargo metadata answers");
        assert!(metadata.packages.len() > 5);
        for package in &metadata.packages {
            let licence = package.license.as_deref().unwrap_or_default();
            assert!(
                satisfied(licence, &allowed),
                "{} {} has the licence {licence:?}, which deny.toml does not list",
                package.name,
                package.version
            );
        }
    }
}

#[test]
fn an_expression_needs_all_its_parts() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "ISC".to_owned()]);
    for (expression, holds) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("MIT OR GPL-3.0", true),
        ("MIT/GPL-3.0", true),
        ("MIT AND GPL-3.0", false),
        ("(GPL-3.0 OR ISC) AND MIT", true),
        ("", false),
    ] {
        assert_eq!(satisfied(expression, &allowed), holds, "{expression}");
    }
}
