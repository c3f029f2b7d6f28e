//! What the user sees while the demo runs: events as lines, and below them, on
//! a terminal, one line that lives.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use aedile_clock::{BootInstant, SharedClock};

use crate::output::figures;
use crate::output::style::Style;

/// Width of the lease's bar, in cells.
const BAR: usize = 20;
/// How often the figures are printed where no line can live.
const PLAIN: Duration = Duration::from_secs(5);

/// The figures of the line that lives.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Holder of the lease; empty if nobody holds it.
    pub(crate) holder: String,
    /// Its epoch.
    pub(crate) epoch: u64,
    /// What is left of the lease.
    pub(crate) left: Duration,
    /// How long the lease lasts.
    pub(crate) ttl: Duration,
    /// Marks in the destroyed queue.
    pub(crate) marks: u64,
    /// Reservations.
    pub(crate) reservations: u64,
    /// Live objects.
    pub(crate) live: u64,
}

/// Prints the demo's progress.
#[derive(Debug)]
pub(crate) struct Progress {
    clock: SharedClock,
    began: BootInstant,
    /// Whether it goes to standard error, because standard output is for JSON.
    to_stderr: bool,
    /// Whether a line can be drawn over.
    alive: bool,
    style: Style,
    drawn: bool,
    plain_at: Option<BootInstant>,
}

impl Progress {
    /// Start the count of time.
    pub(crate) fn new(clock: SharedClock, to_stderr: bool) -> Self {
        let terminal = if to_stderr {
            io::stderr().is_terminal()
        } else {
            io::stdout().is_terminal()
        };
        let began = clock.boot();
        Self {
            clock,
            began,
            to_stderr,
            alive: terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb"),
            style: if to_stderr {
                Style::stderr()
            } else {
                Style::stdout()
            },
            drawn: false,
            plain_at: None,
        }
    }

    /// Something happened.
    pub(crate) fn event(&mut self, text: &str) {
        self.print(text, |_, text| text.to_owned());
    }

    /// Something that was hoped for.
    pub(crate) fn good(&mut self, text: &str) {
        self.print(text, Style::good);
    }

    /// Something is done to the cluster.
    pub(crate) fn deed(&mut self, text: &str) {
        self.print(text, Style::warn);
    }

    /// Something did not happen.
    pub(crate) fn bad(&mut self, text: &str) {
        self.print(text, Style::bad);
    }

    fn print(&mut self, text: &str, paint: impl Fn(Style, &str) -> String) {
        self.clear();
        let since = self.clock.boot().since(self.began).as_secs_f64();
        let time = self.style.dim(&format!("{since:6.1} s"));
        self.put(&format!("{time}  {}\n", paint(self.style, text)));
    }

    /// Show the figures.
    pub(crate) fn figures(&mut self, figures: &Figures) {
        if self.alive {
            let line = self.lively(figures);
            let line = format!("\r\x1b[2K{line}");
            self.put(&line);
            self.drawn = true;
            return;
        }
        let now = self.clock.boot();
        if self.plain_at.is_none_or(|last| now.since(last) >= PLAIN) {
            self.plain_at = Some(now);
            let line = plain(figures);
            self.print(&line, |style, text| style.dim(text));
        }
    }

    fn lively(&self, figures: &Figures) -> String {
        let share = figures.left.as_secs_f64() / figures.ttl.as_secs_f64().max(0.001);
        let full = ((share * BAR as f64).round() as usize).min(BAR);
        let bar = format!("{}{}", "█".repeat(full), "░".repeat(BAR - full));
        let bar = if share > 0.5 {
            self.style.good(&bar)
        } else if share > 0.0 {
            self.style.warn(&bar)
        } else {
            self.style.bad(&bar)
        };
        let holder = if figures.holder.is_empty() {
            "nobody"
        } else {
            &figures.holder
        };
        format!(
            "          lease {} epoch {} {bar} {:4.1} s   {} queued  {} reserved  {} live",
            self.style.bold(holder),
            figures.epoch,
            figures.left.as_secs_f64(),
            figures::grouped(figures.marks),
            figures::grouped(figures.reservations),
            figures::grouped(figures.live),
        )
    }

    /// Take the line that lives away.
    pub(crate) fn clear(&mut self) {
        if self.drawn {
            self.put("\r\x1b[2K");
            self.drawn = false;
        }
    }

    fn put(&self, text: &str) {
        // A reader that went away is no failure of the demo.
        let _ = if self.to_stderr {
            io::stderr()
                .write_all(text.as_bytes())
                .and_then(|()| io::stderr().flush())
        } else {
            io::stdout()
                .write_all(text.as_bytes())
                .and_then(|()| io::stdout().flush())
        };
    }
}

fn plain(figures: &Figures) -> String {
    let lease = if figures.holder.is_empty() {
        "nobody holds the lease".to_owned()
    } else if figures.left.is_zero() {
        format!(
            "lease of {} (epoch {}) has expired",
            figures.holder, figures.epoch
        )
    } else {
        format!(
            "lease {} (epoch {}) for {}",
            figures.holder,
            figures.epoch,
            figures::span(figures.left)
        )
    };
    format!(
        "{lease}; {} queued, {} reserved, {} live",
        figures::grouped(figures.marks),
        figures::grouped(figures.reservations),
        figures::grouped(figures.live)
    )
}
