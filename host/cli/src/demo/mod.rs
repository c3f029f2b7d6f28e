//! `aedile demo`: the main job in a minute, with a verdict.
//!
//! The command itself is only the driver: it starts the processes, does things
//! to them, and shows what happens. The nodes are `aedile run`; `writer` acts as
//! a PicoMQ node; `observer` notes what the database shows; `verdict` judges
//! afterwards. `records` are the files between them.

mod layout;
mod observer;
mod process;
mod progress;
mod records;
mod scene;
mod script;
mod verdict;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock};
use anyhow::Context;

use crate::config::{Config, ConfigError};
use crate::exit::Exit;
use crate::output::style::Style;
use crate::output::{self, figures};
use crate::{settings, signals};
use layout::Layout;
use progress::Progress;
use verdict::{Bound, Check, Verdict};

/// Prefix of the keys that the demo's plugin deletes when they are old.
const SESSIONS: &str = "demo/session/";
/// Prefix of keys that no rule is about.
const KEPT_KEYS: &str = "demo/settings/";
/// How long the demo's abandoned uploads are reserved.
const LAPSE: Duration = Duration::from_secs(3);

/// One of the demo's own processes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    /// Makes things.
    Writer,
    /// Notes what the database shows.
    Observer,
    /// Judges.
    Verdict,
}

/// Run one of the demo's own processes.
pub(crate) async fn part(role: Role, root: &Path) -> anyhow::Result<Exit> {
    let clock: SharedClock = Arc::new(SystemClock);
    match role {
        Role::Writer => writer::run(root, clock).await,
        Role::Observer => observer::run(root, clock).await,
        Role::Verdict => verdict::run(root, clock).await,
    }
}

/// Run the demo.
pub(crate) async fn run(config: &Config) -> anyhow::Result<Exit> {
    let json = config.switch(settings::JSON)?;
    let stop = signals::stop_token()?;
    let place = Place::make(config)?;
    let clock: SharedClock = Arc::new(SystemClock);
    let layout = Layout::new(&place.root);
    layout
        .create()
        .with_context(|| format!("cannot work in {}", place.root.display()))?;
    let progress = Progress::new(clock.clone(), json);
    let played = tokio::select! {
        played = script::play(&layout, clock, progress) => played,
        // What runs is ended when its handle is dropped.
        () = stop.cancelled() => return Ok(Exit::Stopped),
    };
    if let Err(error) = played {
        eprintln!("{}", place.keep()?);
        return Err(error);
    }
    let judged = process::verdict(&layout, &place.root).await?;
    let verdict: Verdict = serde_json::from_slice(&judged).context("the verdict is no verdict")?;
    if json {
        output::json(&verdict)?;
    } else {
        print(&verdict);
    }
    if verdict.held {
        place.end()?;
        return Ok(Exit::Ok);
    }
    eprintln!("{}", place.keep()?);
    Ok(Exit::Verdict)
}

fn print(verdict: &Verdict) {
    let style = Style::stdout();
    output::line("");
    output::line(&style.bold("Verdict, by a separate process, from database and directory alone"));
    for check in &verdict.checks {
        let mark = if check.held {
            style.good("holds")
        } else {
            style.bad("FAILS")
        };
        output::line(&format!(
            "  {mark}  {:<26} {:>9}  {:<13}  {}",
            check.name,
            shown(check, check.value),
            bound(check),
            style.dim(&check.detail)
        ));
    }
    if verdict.held {
        output::line(&style.good("Every bound holds."));
    } else {
        output::line(&style.bad("A bound does not hold."));
        if !verdict.guard {
            output::line(&style.bad("This build has no guard; that is what the verdict shows."));
        }
    }
}

fn shown(check: &Check, value: i64) -> String {
    match (check.unit.as_str(), u64::try_from(value)) {
        (_, Err(_)) => value.to_string(),
        ("ms", Ok(_)) if value == i64::MAX => "never".to_owned(),
        ("ms", Ok(millis)) => figures::span(Duration::from_millis(millis)),
        (_, Ok(number)) => figures::grouped(number),
    }
}

fn bound(check: &Check) -> String {
    match check.bound {
        Bound::Exactly(value) => format!("must be {}", shown(check, value)),
        Bound::AtMost(value) => format!("≤ {}", shown(check, value)),
        Bound::AtLeast(value) => format!("≥ {}", shown(check, value)),
    }
}

/// Where the demo works.
#[derive(Debug)]
struct Place {
    root: PathBuf,
    /// Removed at the end.
    temporary: Option<tempfile::TempDir>,
}

impl Place {
    fn make(config: &Config) -> anyhow::Result<Self> {
        let keep = config.switch(settings::KEEP)?;
        let Some(named) = config.text(settings::DIR) else {
            let temporary = tempfile::Builder::new().prefix("aedile-demo-").tempdir()?;
            let root = temporary.path().to_owned();
            let temporary = if keep {
                let _ = temporary.keep();
                None
            } else {
                Some(temporary)
            };
            return Ok(Self { root, temporary });
        };
        let wrong = |reason: String| ConfigError::Argument {
            what: format!("--{} {named}", settings::DIR.name),
            reason,
        };
        std::fs::create_dir_all(named)
            .map_err(|error| wrong(format!("cannot be made: {error}")))?;
        let root = std::fs::canonicalize(named).map_err(|error| wrong(error.to_string()))?;
        let mut entries = std::fs::read_dir(&root).map_err(|error| wrong(error.to_string()))?;
        if entries.next().is_some() {
            return Err(wrong("is not empty; name a new or empty directory".to_owned()).into());
        }
        Ok(Self {
            root,
            temporary: None,
        })
    }

    /// After a failure: keep everything and say where.
    fn keep(self) -> anyhow::Result<String> {
        if let Some(temporary) = self.temporary {
            let _ = temporary.keep();
        }
        Ok(format!("everything is kept in {}", self.root.display()))
    }

    /// After success: remove what is temporary, say where the rest is.
    fn end(self) -> anyhow::Result<()> {
        match self.temporary {
            Some(temporary) => temporary.close()?,
            None => eprintln!("everything is kept in {}", self.root.display()),
        }
        Ok(())
    }
}
