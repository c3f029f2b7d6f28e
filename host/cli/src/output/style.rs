//! Colour, where it is wanted and can be seen.

use std::io::IsTerminal;

/// Whether the user leaves colour on (<https://no-color.org>).
pub(crate) fn wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Paints text, or leaves it as it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    on: bool,
}

impl Style {
    /// For standard output.
    pub(crate) fn stdout() -> Self {
        Self {
            on: std::io::stdout().is_terminal() && wanted(),
        }
    }

    /// For standard error.
    pub(crate) fn stderr() -> Self {
        Self {
            on: std::io::stderr().is_terminal() && wanted(),
        }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.on {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// It holds.
    pub(crate) fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// It should be looked at.
    pub(crate) fn warn(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// It is wrong.
    pub(crate) fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// A heading.
    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// By the way.
    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }
}
