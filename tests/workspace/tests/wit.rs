//! The public contract: every item has its text and its version, and every
//! copy is the same.

use std::fs;

use aedile_tests_workspace::{files, root, text};

/// What begins an item at the depth where it stands: the keywords of WIT, and
/// functions, fields and cases, which have none.
#[derive(Debug, PartialEq, Eq)]
enum Item {
    /// Needs a text and `@since`.
    Versioned,
    /// A field or a case: part of its type, needs a text only.
    Part,
}

/// Items of a WIT file, each with the lines of comments and attributes right
/// before it.
fn items(wit: &str) -> Vec<(Item, String, Vec<String>)> {
    let (mut items, mut before, mut depth) = (Vec::new(), Vec::new(), 0_usize);
    for line in wit.lines().map(str::trim) {
        if line.starts_with("///") || line.starts_with('@') {
            before.push(line.to_owned());
            continue;
        }
        let mut kind = match (line.split_whitespace().next(), depth) {
            (None, _) => None,
            (Some(word), _) if word.starts_with('}') => None,
            // A package has its version in its name; a `use` defines nothing.
            (Some("package" | "use"), _) => None,
            (Some("import" | "export"), _) => None,
            (Some(_), 0 | 1) => Some(Item::Versioned),
            (Some(_), _) => Some(Item::Part),
        };
        if let Some(kind) = kind.take() {
            items.push((kind, line.to_owned(), std::mem::take(&mut before)));
        }
        before.clear();
        depth += line.matches('{').count();
        // `use types.{a, b};` opens and closes on one line.
        depth -= line.matches('}').count();
    }
    assert_eq!(depth, 0, "braces do not match");
    items
}

#[test]
fn every_item_has_a_text_and_the_version_that_brought_it() {
    let mut versioned = 0;
    for path in files("wit") {
        for (kind, line, before) in items(&text(&path)) {
            assert!(
                before.iter().any(|line| line.starts_with("/// ")),
                "{path}: `{line}` has no text (`///`)"
            );
            if kind == Item::Versioned {
                versioned += 1;
                assert!(
                    before
                        .iter()
                        .any(|line| line.starts_with("@since(version = ")),
                    "{path}: `{line}` has no `@since`"
                );
            }
        }
    }
    assert!(
        versioned > 60,
        "only {versioned} items were found: the reader is wrong"
    );
}

#[test]
fn the_reader_finds_what_lacks() {
    let wit = "/// a\n@since(version = 0.1.0)\ninterface a {\n  use b.{c, d};\n  /// r\n  record r {\n    f: u8,\n  }\n}\n";
    let items = items(wit);
    let lines: Vec<_> = items
        .iter()
        .map(|(_, line, before)| (line.as_str(), before.len()))
        .collect();
    assert_eq!(
        lines,
        [("interface a {", 2), ("record r {", 1), ("f: u8,", 0)]
    );
}

#[test]
fn every_copy_of_the_contract_is_the_same() {
    let names: Vec<_> = files("wit")
        .into_iter()
        .map(|path| path.trim_start_matches("wit/").to_owned())
        .collect();
    assert!(names.iter().any(|name| name == "world.wit"));
    for copy in ["host/engine/wit", "plugins/sdk/wit"] {
        // `read_dir` follows the link, if it is one.
        let mut there: Vec<_> = fs::read_dir(root().join(copy))
            .unwrap_or_else(|error| panic!("{copy}: {error}"))
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .into_string()
                    .expect("UTF-8")
            })
            .collect();
        there.sort();
        assert_eq!(there, names, "{copy} has other files than wit/");
        for name in &names {
            assert_eq!(
                text(&format!("{copy}/{name}")),
                text(&format!("wit/{name}")),
                "{copy}/{name} differs from wit/{name}"
            );
        }
    }
}
