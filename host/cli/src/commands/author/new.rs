//! `aedile plugin new`: a project to start from.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::config::{Config, ConfigError};
use crate::exit::Exit;
use crate::output::{self, style::Style};
use crate::templates::{self, Project};
use crate::{builtins, settings};

/// Names that a compiler or a linker takes for its own.
const TAKEN: [&str; 14] = [
    "aedile",
    "aedile-plugin",
    "alloc",
    "core",
    "main",
    "proc-macro",
    "self",
    "serde",
    "serde-json",
    "std",
    "super",
    "test",
    "wit",
    "wit-bindgen",
];

/// Write the project of a new plugin and say what comes next.
pub(crate) fn new(config: &Config, name: &str) -> anyhow::Result<Exit> {
    let json = config.switch(settings::JSON)?;
    check(name).map_err(|reason| argument(&name, reason))?;
    let language = config.text(settings::LANG).unwrap_or("rust");
    let Some(project) = templates::project(language, name) else {
        return Err(config.wrong(settings::LANG, unknown(language)).into());
    };
    let folder = config
        .text(settings::DIR)
        .map_or_else(|| PathBuf::from(name), PathBuf::from);
    write(&folder, &project)?;
    if json {
        let files: Vec<_> = project.files.iter().map(|(path, _)| path).collect();
        output::json(&json!({
            "name": name,
            "language": language,
            "folder": folder,
            "files": files,
            "next": project.next,
        }))?;
        return Ok(Exit::Ok);
    }
    let style = Style::stdout();
    output::line(&style.good(&format!(
        "{}: {} files, a plugin that builds and passes its tests",
        folder.display(),
        project.files.len()
    )));
    output::line("");
    output::line("next:");
    output::line(&format!("  cd {}", folder.display()));
    for line in &project.next {
        output::line(&format!("  {line}"));
    }
    Ok(Exit::Ok)
}

/// A manifest's rule for a name, and what would be in the way of building it.
fn check(name: &str) -> Result<(), String> {
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.starts_with(|first: char| first.is_ascii_lowercase())
        || name.len() > 64
        || !name.chars().all(letters)
    {
        return Err(
            "a plugin's name has 1 to 64 of a-z, 0-9 and -, and begins with a letter".to_owned(),
        );
    }
    if name.ends_with('-') || name.contains("--") {
        return Err("a hyphen stands between two letters or digits".to_owned());
    }
    if builtins::names().any(|built_in| built_in == name) {
        return Err(
            "a built-in plugin has this name, and a module of it would replace it; choose another"
                .to_owned(),
        );
    }
    if TAKEN.contains(&name) {
        return Err("compilers take this name for their own; choose another".to_owned());
    }
    Ok(())
}

fn unknown(language: &str) -> String {
    let known = templates::languages();
    match language {
        "go" => format!(
            "Go is not supported yet: its compiler makes no such component; there are: {}",
            known.join(", ")
        ),
        _ => format!(
            "there is no template for `{}`; there are: {}",
            language.escape_debug(),
            known.join(", ")
        ),
    }
}

/// Write the files into a folder that is new or empty. No file is overwritten.
fn write(folder: &Path, project: &Project) -> anyhow::Result<()> {
    let problem =
        |path: &Path, reason: String| anyhow::Error::from(argument(&path.display(), reason));
    match fs::read_dir(folder).map(|mut entries| entries.next().is_some()) {
        Ok(true) => {
            return Err(problem(
                folder,
                "the folder is not empty, and nothing is overwritten; name another with --dir"
                    .to_owned(),
            ));
        }
        Ok(false) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => {
            return Err(problem(
                folder,
                format!("a project cannot be written there: {error}; name another with --dir"),
            ));
        }
    }
    for (path, bytes) in &project.files {
        let path = folder.join(path);
        let written = path
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::File::create_new(&path))
            .and_then(|mut file| file.write_all(bytes));
        written.map_err(|error| problem(&path, format!("cannot be written: {error}")))?;
    }
    Ok(())
}

fn argument(what: &dyn ToString, reason: String) -> ConfigError {
    ConfigError::Argument {
        what: what.to_string(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_before_anything_is_written() {
        for name in ["a", "night-watch", "a1-b2"] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        let long = "a".repeat(65);
        for (name, words) in [
            ("", "1 to 64"),
            ("Census", "1 to 64"),
            ("../x", "1 to 64"),
            ("1a", "1 to 64"),
            ("é", "1 to 64"),
            (&long, "1 to 64"),
            ("a-", "hyphen"),
            ("a--b", "hyphen"),
            ("cleaner", "built-in"),
            ("std", "compilers"),
        ] {
            let error = check(name).expect_err(name);
            assert!(error.contains(words), "{name}: {error}");
        }
    }

    #[test]
    fn go_is_named_as_not_supported() {
        assert!(unknown("go").contains("Go is not supported yet"));
        assert!(unknown("cobol").contains("rust"), "{}", unknown("cobol"));
    }
}
