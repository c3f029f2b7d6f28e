//! The stop that needs no log: a file on this node that names plugins.
//!
//! While the file is there, those that it names do not tick here; one that ticks
//! is asked to end, and interrupted if it does not. It works when the log is
//! poisoned or the database gone, so it says nothing to other nodes.

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::SharedClock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How often the file is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// Largest file that is read, in bytes.
const LARGEST: u64 = 64 << 10;
/// Stands for every plugin.
const ALL: &str = "*";

/// What the stop file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stops {
    pub(crate) names: BTreeSet<String>,
    /// Why the file is not heeded, or not wholly.
    pub(crate) problem: Option<String>,
    /// Whether there is a file.
    pub(crate) there: bool,
}

impl Stops {
    /// Whether a plugin is not to tick on this node.
    pub(crate) fn stops(&self, name: &str) -> bool {
        self.names.contains(name) || self.names.contains(ALL)
    }

    /// Read a file; none there is nothing that stops.
    fn read(path: &Path) -> Self {
        match text(path) {
            Ok(None) => Self::default(),
            Ok(Some(text)) => Self::parse(&text),
            Err(error) => Self {
                problem: Some(format!(
                    "the stop file {} is not heeded: {error}",
                    path.display()
                )),
                there: true,
                ..Self::default()
            },
        }
    }

    fn parse(text: &str) -> Self {
        let mut stops = Self {
            there: true,
            ..Self::default()
        };
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            for name in line
                .split([' ', '\t', ',', '\r'])
                .filter(|name| !name.is_empty())
            {
                if name == ALL || crate::control::is_name(name) {
                    stops.names.insert(name.to_owned());
                } else {
                    stops.problem = Some(format!(
                        "the stop file has `{}`, which is no plugin's name; write one name a line, \
                         or * for all",
                        name.chars().take(64).collect::<String>().escape_debug()
                    ));
                }
            }
        }
        stops
    }
}

/// The text of a file that only its owner can have written; none if there is no
/// file.
fn text(path: &Path) -> io::Result<Option<String>> {
    let mut file = match open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // Of the open file, not of what the path leads to by now.
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    trusted(&metadata)?;
    if metadata.len() > LARGEST {
        return Err(io::Error::other(format!(
            "it has {} bytes; at most {LARGEST} are read",
            metadata.len()
        )));
    }
    let mut text = String::new();
    file.by_ref().take(LARGEST).read_to_string(&mut text)?;
    Ok(Some(text))
}

#[cfg(unix)]
fn open(path: &Path) -> io::Result<std::fs::File> {
    use rustix::fs::{Mode, OFlags};
    // A pipe would be waited for.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<std::fs::File> {
    std::fs::File::open(path)
}

#[cfg(unix)]
fn trusted(metadata: &std::fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let (owner, own) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != own && owner != 0 {
        return Err(io::Error::other(format!(
            "it belongs to user {owner}; it must belong to user {own}, as whom Aedile runs, or to root"
        )));
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o022 != 0 {
        return Err(io::Error::other(format!(
            "its mode is {mode:o}, so others than its owner may write it; `chmod go-w` it"
        )));
    }
    Ok(())
}

#[cfg(not(unix))]
fn trusted(_: &std::fs::Metadata) -> io::Result<()> {
    Ok(())
}

/// What a stop file says now.
pub(crate) fn look(path: Option<&Path>) -> Stops {
    path.map(Stops::read).unwrap_or_default()
}

/// Follow the file until `stop`.
pub(crate) async fn follow(
    path: PathBuf,
    stops: Arc<watch::Sender<Arc<Stops>>>,
    clock: SharedClock,
    stop: CancellationToken,
) {
    loop {
        let path = path.clone();
        let read = tokio::task::spawn_blocking(move || Stops::read(&path)).await;
        if let Ok(now) = read {
            stops.send_if_modified(|before| {
                let changed = **before != now;
                if changed {
                    say(before, &now);
                    *before = Arc::new(now);
                }
                changed
            });
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = clock.sleep(LOOK) => {}
        }
    }
}

fn say(before: &Stops, now: &Stops) {
    if let Some(problem) = &now.problem
        && before.problem.as_ref() != Some(problem)
    {
        tracing::error!("{problem}");
    }
    if before.names != now.names {
        let names: Vec<&str> = now.names.iter().map(String::as_str).collect();
        match names.is_empty() {
            true => tracing::warn!("the stop file stops nothing any more"),
            false => tracing::warn!(plugins = names.join(", "), "stopped by the stop file"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn names_stars_and_comments_are_read() {
        let stops = Stops::parse("# why\ncleaner, kv-ttl # both\n\n");
        assert!(stops.stops("cleaner") && stops.stops("kv-ttl") && !stops.stops("expiry"));
        assert_eq!(stops.problem, None);
        assert!(Stops::parse("*\n").stops("anything"));
        assert!(!Stops::parse("").stops("cleaner"));
        let wrong = Stops::parse("cleaner\nClean_er!\n");
        assert!(wrong.stops("cleaner"));
        assert!(wrong.problem.expect("named").contains("`Clean_er!`"));
    }

    #[test]
    fn a_file_that_others_may_write_is_not_heeded() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("stop");
        assert_eq!(Stops::read(&path), Stops::default());
        std::fs::write(&path, "*\n").expect("written");
        for (mode, heeded) in [(0o600, true), (0o644, true), (0o664, false), (0o646, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
            let stops = Stops::read(&path);
            assert_eq!(stops.stops("cleaner"), heeded, "{mode:o}");
            assert_eq!(stops.problem.is_some(), !heeded, "{mode:o}: {stops:?}");
            assert!(stops.there);
        }
    }

    #[test]
    fn what_is_no_file_is_not_heeded() {
        let dir = tempfile::tempdir().expect("a directory");
        let stops = Stops::read(dir.path());
        assert!(stops.problem.expect("named").contains("is not heeded"));
        std::fs::write(dir.path().join("large"), vec![b'#'; 70_000]).expect("written");
        let stops = Stops::read(&dir.path().join("large"));
        assert!(stops.problem.expect("named").contains("70000 bytes"));
    }
}
