//! The projects that `aedile plugin new` writes.
//!
//! A template is a folder of `templates/`, named after its language, and is the
//! project as it will be, with these exceptions:
//!
//! - `dot-NAME` becomes `.NAME`, and `NAME.in` becomes `NAME`: cargo and git
//!   would take such files for their own;
//! - `{{name}}` stands for the plugin's name, `{{crate}}` for the same with
//!   underscores, in paths as in texts; files below `vendor/` and `wit/` are
//!   copied as they are;
//! - the lines of `NEXT.txt` are printed, not written.

use std::borrow::Cow;
use std::path::PathBuf;

use include_dir::{Dir, DirEntry, include_dir};

static TEMPLATES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/templates");

/// What is printed instead of written.
const NEXT: &str = "NEXT.txt";
/// Folders that are copied as they are.
const AS_THEY_ARE: [&str; 2] = ["vendor", "wit"];

/// A project, ready to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Project {
    /// Its files, by path below its folder.
    pub(crate) files: Vec<(PathBuf, Cow<'static, [u8]>)>,
    /// The commands that come next, to be run in its folder.
    pub(crate) next: Vec<String>,
}

/// The languages that there are templates for, in order.
pub(crate) fn languages() -> Vec<&'static str> {
    let mut names: Vec<_> = TEMPLATES
        .dirs()
        .filter_map(|dir| dir.path().to_str())
        .collect();
    names.sort_unstable();
    names
}

/// The project of a language for a plugin of this name; none for a language
/// that there is no template for.
pub(crate) fn project(language: &str, name: &str) -> Option<Project> {
    let folder = TEMPLATES
        .dirs()
        .find(|dir| dir.path().to_str() == Some(language))?;
    let mut project = Project::default();
    let mut folders = vec![folder];
    while let Some(dir) = folders.pop() {
        for entry in dir.entries() {
            match entry {
                DirEntry::Dir(dir) => folders.push(dir),
                DirEntry::File(file) => {
                    let path = file.path().strip_prefix(language).unwrap_or(file.path());
                    let path = path.to_string_lossy();
                    let top = path.split('/').next().unwrap_or_default();
                    let bytes = match file.contents_utf8() {
                        Some(text) if !AS_THEY_ARE.contains(&top) => {
                            Cow::Owned(filled(text, name).into_bytes())
                        }
                        _ => Cow::Borrowed(file.contents()),
                    };
                    if path == NEXT {
                        let text = String::from_utf8_lossy(&bytes);
                        project.next = text.lines().map(str::to_owned).collect();
                    } else {
                        project.files.push((renamed(&path, name), bytes));
                    }
                }
            }
        }
    }
    project.files.sort();
    Some(project)
}

fn filled(text: &str, name: &str) -> String {
    text.replace("{{name}}", name)
        .replace("{{crate}}", &name.replace('-', "_"))
}

fn renamed(path: &str, name: &str) -> PathBuf {
    path.split('/')
        .map(|part| {
            let part = filled(part, name);
            let part = part.strip_suffix(".in").unwrap_or(&part);
            match part.strip_prefix("dot-") {
                Some(hidden) => format!(".{hidden}"),
                None => part.to_owned(),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_a_whole_project() {
        assert!(languages().contains(&"rust"), "{:?}", languages());
        for language in languages() {
            let project = project(language, "night-watch").expect(language);
            assert!(!project.next.is_empty(), "{language}: {NEXT}");
            for what in ["README.md", "manifest.json", ".gitignore"] {
                let found = project.files.iter().any(|(path, _)| path.ends_with(what));
                assert!(found, "{language}: {what}");
            }
            for (path, bytes) in &project.files {
                let own = !AS_THEY_ARE.iter().any(|folder| path.starts_with(folder));
                let text = String::from_utf8_lossy(bytes);
                for left in ["{{name", "{{crate"] {
                    assert!(!own || !text.contains(left), "{}: {left}", path.display());
                    assert!(!path.to_string_lossy().contains(left));
                }
            }
        }
        assert_eq!(project("cobol", "x"), None);
    }

    #[test]
    fn paths_and_texts_are_filled_in() {
        assert_eq!(filled("{{name}} {{crate}} {}", "a-b"), "a-b a_b {}");
        for (path, expected) in [
            ("dot-gitignore", ".gitignore"),
            ("dot-cargo/config.toml.in", ".cargo/config.toml"),
            ("{{crate}}.c", "a_b.c"),
            ("src/main.in.c", "src/main.in.c"),
        ] {
            assert_eq!(renamed(path, "a-b"), PathBuf::from(expected));
        }
    }

    /// The guest crate of a project is the one of this repository.
    #[test]
    fn the_guest_crate_says_what_the_workspace_says() {
        let project = project("rust", "x").expect("a template");
        let file = |name: &str| -> toml::Table {
            let (_, bytes) = project
                .files
                .iter()
                .find(|(path, _)| path.ends_with(name))
                .expect(name);
            String::from_utf8_lossy(bytes).parse().expect(name)
        };
        let read = |path: &str| -> toml::Table {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
            let text = std::fs::read_to_string(&path).expect("a file of this repository");
            text.parse().expect("a table")
        };
        let workspace = read("../../plugins/Cargo.toml")["workspace"].clone();
        let guest = file("vendor/aedile-plugin/Cargo.toml");
        let sdk = read("../../plugins/sdk/Cargo.toml");
        assert_eq!(guest["package"]["version"], workspace["package"]["version"]);
        let own = sdk["dependencies"].as_table().expect("dependencies");
        let copied = guest["dependencies"].as_table().expect("dependencies");
        assert_eq!(
            own.keys().collect::<Vec<_>>(),
            copied.keys().collect::<Vec<_>>()
        );
        for (name, wanted) in copied {
            assert_eq!(wanted, &workspace["dependencies"][name], "{name}");
        }
    }
}
