//! The watched directory: each `NAME.wasm` with an optional `NAME.toml` beside
//! it, and where signatures count, its `NAME.wasm.minisig`.
//!
//! A file is taken once it stood still between two looks, so that a half-copied
//! one is not. One that does not load leaves the older one running, and is tried
//! again when it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{BootInstant, SharedClock};
use aedile_engine::Engine;
use aedile_supply::Trust;

use super::load::{Granting, Loaded, load};
use super::{Problem, parse_settings};
use crate::backend::chain;

/// Largest module that is read, in bytes.
const MODULE: u64 = 32 << 20;
/// Largest settings file that is read, in bytes.
const SETTINGS: u64 = 1 << 20;

/// What a file looked like: if any of it differs, the file has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    length: u64,
    modified: Option<std::time::SystemTime>,
    node: u64,
}

/// What a module, its settings and its signature looked like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    module: Look,
    settings: Option<Look>,
    signature: Option<Look>,
}

/// What stands there: a module, the text of its settings, its signature.
struct Content {
    bytes: Vec<u8>,
    settings: Option<String>,
    signature: Option<String>,
}

#[derive(Debug, Default)]
struct File {
    /// What was last taken, whether it loaded or not.
    taken: Option<Stamp>,
    /// What was seen and has not stood still for long enough.
    pending: Option<(Stamp, BootInstant)>,
    /// Since when it has been missing.
    missing: Option<BootInstant>,
    /// What runs.
    loaded: Option<Arc<Loaded>>,
    /// Why what was last taken does not run.
    problem: Option<Problem>,
}

/// A plugin directory as it was last looked at.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    settle: Duration,
    trust: Trust,
    files: BTreeMap<PathBuf, File>,
    /// Names that the built-in plugins have.
    reserved: BTreeSet<String>,
    /// The file that runs under each name.
    owners: BTreeMap<String, PathBuf>,
    unreadable: Option<Problem>,
}

/// What a look at the directory found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// What runs, or why something does not, is different from before.
    pub(crate) changed: bool,
    /// Something has not stood still yet: look again after the settling time.
    pub(crate) unsettled: bool,
}

impl Directory {
    pub(crate) fn new(
        path: PathBuf,
        settle: Duration,
        reserved: BTreeSet<String>,
        trust: Trust,
    ) -> Self {
        Self {
            path,
            settle,
            trust,
            files: BTreeMap::new(),
            reserved,
            owners: BTreeMap::new(),
            unreadable: None,
        }
    }

    /// Look until everything has stood still.
    pub(crate) async fn look_until_settled(&mut self, engine: &Engine, clock: &SharedClock) {
        // A file that is written without end must not keep the others waiting.
        for _ in 0..20 {
            if !self.look(engine, clock).await.unsettled {
                return;
            }
            clock.sleep(self.settle).await;
        }
    }

    /// Look once.
    pub(crate) async fn look(&mut self, engine: &Engine, clock: &SharedClock) -> Seen {
        let mut seen = Seen::default();
        let now = clock.boot();
        let path = self.path.clone();
        let found = match blocking(move || survey(&path)).await {
            Ok(found) => found,
            Err(error) => {
                let problem = Problem {
                    origin: self.path.display().to_string(),
                    plugin: None,
                    text: format!("the plugin directory cannot be read: {error}"),
                    keeps_running: self.files.values().any(|file| file.loaded.is_some()),
                };
                seen.changed = self.unreadable.as_ref() != Some(&problem);
                self.unreadable = Some(problem);
                return seen;
            }
        };
        seen.changed |= self.unreadable.take().is_some();

        let settle = self.settle;
        self.files.retain(|path, file| {
            if found.contains_key(path) {
                file.missing = None;
                return true;
            }
            // A replacement by renaming shows no file for a moment.
            let since = *file.missing.get_or_insert(now);
            let gone = now.since(since) >= settle;
            seen.changed |= gone;
            seen.unsettled |= !gone;
            !gone
        });

        for (path, stamp) in found {
            let file = self.files.entry(path.clone()).or_default();
            if file.taken == Some(stamp) {
                file.pending = None;
                continue;
            }
            match file.pending {
                Some((before, since)) if before == stamp && now.since(since) >= settle => {}
                Some((before, _)) if before == stamp => {
                    seen.unsettled = true;
                    continue;
                }
                _ => {
                    file.pending = Some((stamp, now));
                    seen.unsettled = true;
                    continue;
                }
            }
            if file.take(&path, stamp, engine, &self.trust).await {
                seen.changed = true;
            } else {
                // It changed under the read.
                file.pending = None;
                seen.unsettled = true;
            }
        }
        seen
    }

    /// The plugins that run, one a name, and why others do not. Whoever runs
    /// under a name keeps it.
    pub(crate) fn resolve(&mut self) -> (Vec<Arc<Loaded>>, Vec<Problem>) {
        let mut problems: Vec<Problem> = self.unreadable.iter().cloned().collect();
        problems.extend(self.files.values().filter_map(|file| file.problem.clone()));
        let mut by_name: BTreeMap<String, Vec<(PathBuf, Arc<Loaded>)>> = BTreeMap::new();
        for (path, file) in &self.files {
            if let Some(loaded) = &file.loaded {
                let name = loaded.name().to_owned();
                by_name
                    .entry(name)
                    .or_default()
                    .push((path.clone(), loaded.clone()));
            }
        }
        let mut running = Vec::new();
        let mut owners = BTreeMap::new();
        for (name, candidates) in by_name {
            let reserved = self.reserved.contains(&name);
            let owner = self
                .owners
                .get(&name)
                .filter(|&owner| candidates.iter().any(|(path, _)| path == owner))
                .or_else(|| candidates.first().map(|(path, _)| path))
                .cloned();
            for (path, loaded) in &candidates {
                let text = if reserved {
                    format!(
                        "it is named `{name}` as a built-in plugin is, which runs instead; give it \
                         another name in its manifest"
                    )
                } else if owner.as_ref() == Some(path) {
                    running.push(loaded.clone());
                    continue;
                } else {
                    let other = owner.as_deref().unwrap_or(Path::new(""));
                    format!(
                        "the plugin `{name}` already runs from {}; remove one of the two",
                        other.display()
                    )
                };
                problems.push(Problem {
                    origin: path.display().to_string(),
                    plugin: Some(name.clone()),
                    text,
                    keeps_running: false,
                });
            }
            if let Some(owner) = owner.filter(|_| !reserved) {
                owners.insert(name, owner);
            }
        }
        self.owners = owners;
        (running, problems)
    }
}

impl File {
    /// Take what stands there. False if it changed while it was read.
    async fn take(&mut self, path: &Path, stamp: Stamp, engine: &Engine, trust: &Trust) -> bool {
        let module = path.to_owned();
        let signed = !trust.keys().is_empty();
        let read = blocking(move || read(&module, signed)).await;
        let outcome = match read {
            Ok((_, again)) if again != stamp => return false,
            Ok((content, _)) => ready(path, content, engine, trust).await,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return false,
            Err(error) => Err((None, error.to_string())),
        };
        self.taken = Some(stamp);
        self.pending = None;
        match outcome {
            Ok(loaded) => {
                tracing::info!(
                    plugin = loaded.name(),
                    version = loaded.manifest().version,
                    digest = loaded.plugin.digest(),
                    file = %path.display(),
                    "plugin loaded"
                );
                self.loaded = Some(loaded);
                self.problem = None;
            }
            Err((plugin, text)) => {
                let keeps_running = self.loaded.is_some();
                tracing::warn!(file = %path.display(), keeps_running, reason = %text, "plugin refused");
                self.problem = Some(Problem {
                    origin: path.display().to_string(),
                    plugin,
                    text,
                    keeps_running,
                });
            }
        }
        true
    }
}

async fn ready(
    path: &Path,
    content: Content,
    engine: &Engine,
    trust: &Trust,
) -> Result<Arc<Loaded>, (Option<String>, String)> {
    let Content {
        bytes,
        settings,
        signature,
    } = content;
    trust
        .check(&bytes, signature.as_deref())
        .map_err(|error| (None, chain(&error)))?;
    let settings = match settings {
        Some(text) => parse_settings(&text).map_err(|error| {
            let file = path.with_extension("toml");
            (None, format!("{}: {error}", file.display()))
        })?,
        None => super::PluginSettings::default(),
    };
    let origin = path.display().to_string();
    load(engine, bytes.into(), settings, Granting::Settings, origin)
        .await
        .map_err(|unfit| (unfit.plugin, unfit.text))
}

/// Every module of the directory with what it and its settings look like.
fn survey(path: &Path) -> io::Result<BTreeMap<PathBuf, Stamp>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(path)? {
        let file = entry?.path();
        let hidden = file
            .file_name()
            .is_none_or(|name| name.to_string_lossy().starts_with('.'));
        if hidden || file.extension().is_none_or(|extension| extension != "wasm") {
            continue;
        }
        // A file that goes away meanwhile is simply not there.
        if let Ok(stamp) = stamp(&file) {
            found.insert(file, stamp);
        }
    }
    Ok(found)
}

fn stamp(module: &Path) -> io::Result<Stamp> {
    let beside = |path: &Path| match look(path) {
        Ok(look) => Ok(Some(look)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    Ok(Stamp {
        module: look(module)?,
        settings: beside(&module.with_extension("toml"))?,
        signature: beside(&signature_of(module))?,
    })
}

fn look(path: &Path) -> io::Result<Look> {
    let metadata = std::fs::metadata(path)?;
    #[cfg(unix)]
    let node = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let node = 0;
    Ok(Look {
        length: metadata.len(),
        modified: metadata.modified().ok(),
        node,
    })
}

/// Where minisign puts a module's signature.
fn signature_of(module: &Path) -> PathBuf {
    let mut name = module.as_os_str().to_owned();
    name.push(".minisig");
    PathBuf::from(name)
}

/// What stands there, its signature if it is wanted, and what all of it looked
/// like afterwards.
fn read(module: &Path, signed: bool) -> io::Result<(Content, Stamp)> {
    let before = stamp(module)?;
    if before.module.length > MODULE {
        return Err(io::Error::other(format!(
            "the module has {} bytes; at most {MODULE} are taken",
            before.module.length
        )));
    }
    let bytes = std::fs::read(module)?;
    let settings = match before.settings {
        Some(look) if look.length > SETTINGS => {
            return Err(io::Error::other(format!(
                "the settings file has {} bytes; at most {SETTINGS} are taken",
                look.length
            )));
        }
        Some(_) => Some(std::fs::read_to_string(module.with_extension("toml"))?),
        None => None,
    };
    let signature = match before.signature.filter(|_| signed) {
        Some(_) => {
            let text = aedile_supply::read_signature(&signature_of(module));
            Some(text.map_err(|error| io::Error::other(chain(&error)))?)
        }
        None => None,
    };
    let content = Content {
        bytes,
        settings,
        signature,
    };
    Ok((content, stamp(module)?))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
}
