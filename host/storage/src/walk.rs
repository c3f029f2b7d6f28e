//! The files beneath a directory in the byte order of their keys.

use std::io::{self, ErrorKind};

use cap_std::fs::Dir;

/// A walk that can be continued. It reads a directory's names when it gets
/// there, and once: a file that is added behind it shows in the next walk.
#[derive(Debug)]
pub(crate) struct Walk {
    prefix: String,
    /// The last key that was given, or the one to begin after.
    after: Option<String>,
    begun: bool,
    /// Paths that are still to be visited, the next one last. Those of
    /// directories end with a slash.
    ahead: Vec<String>,
}

impl Walk {
    pub(crate) fn new(prefix: &str, after: Option<&str>) -> Self {
        Self {
            prefix: prefix.to_owned(),
            after: after.map(str::to_owned),
            begun: false,
            ahead: Vec::new(),
        }
    }

    /// Whether it stands where such a listing goes on.
    pub(crate) fn continues(&self, prefix: &str, after: Option<&str>) -> bool {
        after.is_some() && self.after.as_deref() == after && self.prefix == prefix
    }

    /// The next key; none at the end.
    ///
    /// # Errors
    /// The path that could not be read, and why.
    pub(crate) fn next(&mut self, root: &Dir) -> Result<Option<String>, (String, io::Error)> {
        if !self.begun {
            self.begun = true;
            self.enter(root, "")?;
        }
        while let Some(path) = self.ahead.pop() {
            if path.ends_with('/') {
                self.enter(root, &path)?;
            } else {
                self.after = Some(path.clone());
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    fn enter(&mut self, root: &Dir, path: &str) -> Result<(), (String, io::Error)> {
        match self.children(root, path) {
            Ok(mut children) => {
                // In the order of the keys beneath: "a.b" before "a/b".
                children.sort_unstable_by(|a, b| b.cmp(a));
                self.ahead.append(&mut children);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NotFound && !path.is_empty() => Ok(()),
            Err(error) => Err((path.to_owned(), error)),
        }
    }

    fn children(&self, root: &Dir, path: &str) -> io::Result<Vec<String>> {
        let entries = if path.is_empty() {
            root.entries()?
        } else {
            root.read_dir(path)?
        };
        let mut children = Vec::new();
        for entry in entries {
            let entry = entry?;
            // A name that is no text is no key of anybody's.
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let kind = match entry.file_type() {
                Ok(kind) => kind,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let child = if kind.is_dir() {
                format!("{path}{name}/")
            } else if kind.is_file() {
                format!("{path}{name}")
            } else {
                continue;
            };
            if self.wanted(&child) {
                children.push(child);
            }
        }
        Ok(children)
    }

    /// Whether a path is, or may lead to, a key that was asked for.
    fn wanted(&self, path: &str) -> bool {
        let is_dir = path.ends_with('/');
        let below_prefix =
            path.starts_with(&self.prefix) || (is_dir && self.prefix.starts_with(path));
        let ahead = match self.after.as_deref() {
            None => true,
            Some(after) => path > after || (is_dir && after.starts_with(path)),
        };
        below_prefix && ahead
    }
}
