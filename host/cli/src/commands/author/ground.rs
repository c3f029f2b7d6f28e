//! What a plugin is tried on, from the command line.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;

use aedile_clock::{SharedClock, UnixMillis};
use aedile_engine::{Engine, EngineOptions, Inspection};
use aedile_log::{MetaUrl, Reader, View};
use aedile_runtime::control::{Action, LimitChanges, ModuleRef, Record};
use aedile_runtime::trial::{Ground, Subject};
use aedile_runtime::{OrphanOptions, PluginSettings, source};
use aedile_storage::{Store, StoreOptions};
use anyhow::Context as _;
use clap::ArgMatches;
use tempfile::TempDir;

use super::capture::{self, Capture};
use crate::commands;
use crate::commands::control::changes;
use crate::config::{Config, ConfigError};
use crate::settings;

/// How a SQLite file begins.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// A module with its settings.
pub(super) struct Plugin {
    pub(super) subject: Subject,
    pub(super) inspection: Inspection,
    /// The file with its settings, if there is one.
    pub(super) settings_file: Option<PathBuf>,
}

/// A ground, and the empty store below it where none was given.
pub(super) struct Prepared {
    pub(super) ground: Ground,
    _empty: Option<TempDir>,
}

/// Read a module, and the settings beside it or those that were named.
pub(super) fn plugin(
    config: &Config,
    leaf: &ArgMatches,
    engine: &Engine,
    file: &Path,
) -> anyhow::Result<Plugin> {
    let bytes = commands::plugin::bytes(file)?;
    let inspection = engine
        .inspect(&bytes)
        .with_context(|| format!("{} is refused", file.display()))?;
    let beside = file.with_extension("toml");
    let settings_file = match config.text(settings::SETTINGS) {
        Some(named) => Some(PathBuf::from(named)),
        None => beside.is_file().then_some(beside),
    };
    let mut settings = match &settings_file {
        None => PluginSettings::default(),
        Some(path) => read_settings(path)?,
    };
    let granted = flags(config, leaf, &mut settings)?;
    Ok(Plugin {
        subject: Subject {
            bytes,
            // Without a file nobody has said what it may do.
            grant_wanted: settings_file.is_none() && !granted,
            settings,
        },
        inspection,
        settings_file,
    })
}

/// What the flags of a deploy say besides; whether they grant anything.
fn flags(
    config: &Config,
    leaf: &ArgMatches,
    settings: &mut PluginSettings,
) -> anyhow::Result<bool> {
    if let Some(values) = changes::plugin_config(config)? {
        settings.config = values.into();
    }
    let mut limits = LimitChanges::default();
    changes::limits(leaf, &mut limits)?;
    settings.limits = limits.over(settings.limits.clone())?;
    let mut record = Record::new(Action::Deploy, ModuleRef::Embedded, String::new());
    record.grants = std::mem::take(&mut settings.grants);
    let before = record.grants.len();
    changes::add_grants(leaf, &mut record)?;
    let granted = record.grants.len() > before;
    settings.grants = record.grants;
    settings.kv_prefixes.extend(record.kv_prefixes);
    Ok(granted)
}

fn read_settings(path: &Path) -> anyhow::Result<PluginSettings> {
    let problem = |reason: String| ConfigError::Argument {
        what: path.display().to_string(),
        reason,
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| problem(format!("the settings cannot be read: {error}")))?;
    Ok(source::parse_settings(&text).map_err(|error| problem(error.to_string()))?)
}

/// The engine that production runs.
pub(super) fn engine(clock: &SharedClock) -> anyhow::Result<Arc<Engine>> {
    Ok(Arc::new(Engine::new(
        EngineOptions::default(),
        clock.clone(),
    )?))
}

/// The captured state, the time and the storage.
pub(super) async fn ground(
    config: &Config,
    clock: &SharedClock,
    engine: Arc<Engine>,
    inspection: &Inspection,
) -> anyhow::Result<Prepared> {
    let capture = match config.text(settings::STATE) {
        Some(text) => read(config, clock, text).await?,
        None => Capture {
            view: View::default(),
            now: clock.unix().0,
        },
    };
    let now = match config.text(settings::AT) {
        Some(text) => at(text, capture.now).map_err(|reason| config.wrong(settings::AT, reason))?,
        None => capture.now,
    };
    let (store, empty) = store(config, clock, inspection)?;
    Ok(Prepared {
        ground: Ground {
            clock: clock.clone(),
            engine,
            view: capture.view,
            now: UnixMillis(now),
            store,
            confirm_empty_store: config.switch(settings::CONFIRM_EMPTY_STORE)?,
            orphans: config.orphans()?,
        },
        _empty: empty,
    })
}

/// An empty state over an empty store.
pub(super) fn without_a_cluster(
    clock: &SharedClock,
    engine: Arc<Engine>,
) -> anyhow::Result<Prepared> {
    let empty = tempfile::tempdir()?;
    let uri = format!("file://{}", empty.path().display()).parse()?;
    Ok(Prepared {
        ground: Ground {
            clock: clock.clone(),
            engine,
            view: View::default(),
            now: clock.unix(),
            store: Store::open(&uri, StoreOptions::default(), clock.clone())?,
            confirm_empty_store: true,
            orphans: OrphanOptions::default(),
        },
        _empty: Some(empty),
    })
}

/// The state of a database, or of a file that was exported.
async fn read(config: &Config, clock: &SharedClock, text: &str) -> anyhow::Result<Capture> {
    let wrong = |reason: String| config.wrong(settings::STATE, reason);
    let path = Path::new(text);
    if !path.is_file() && text.contains(':') {
        let url = MetaUrl::from_str(text).map_err(|error| wrong(error.to_string()))?;
        return of_database(&url, clock).await;
    }
    let file = std::fs::read(path).map_err(|error| {
        wrong(format!(
            "`{text}` cannot be read: {error}; give a file that `aedile state export` wrote, or a \
             database as --meta-url takes it"
        ))
    })?;
    if file.starts_with(SQLITE) {
        let url = format!("sqlite:{text}");
        let url = MetaUrl::from_str(&url).map_err(|error| wrong(error.to_string()))?;
        return of_database(&url, clock).await;
    }
    Ok(Capture::decode(&file).map_err(|error| {
        let hint = match error {
            capture::CaptureError::Foreign => ", and no SQLite database either",
            _ => "",
        };
        wrong(format!("`{text}`: {error}{hint}"))
    })?)
}

async fn of_database(url: &MetaUrl, clock: &SharedClock) -> anyhow::Result<Capture> {
    let reader = Reader::open(url, clock).await?;
    let captured = async {
        Ok::<_, aedile_log::LogError>(Capture {
            now: reader.database_now().await?.0,
            view: reader.view().await?,
        })
    }
    .await;
    reader.close().await;
    Ok(captured?)
}

/// A time: of RFC 3339, in Unix milliseconds, or so much after the capture.
fn at(text: &str, captured: i64) -> Result<i64, String> {
    let wrong = || {
        format!(
            "`{text}` is no time: write 2026-12-31T23:59:59Z, Unix milliseconds, or +90m for so \
             much after the capture"
        )
    };
    if let Some(later) = text.strip_prefix('+') {
        let later = humantime::parse_duration(later).map_err(|_| wrong())?;
        let later = i64::try_from(later.as_millis()).map_err(|_| wrong())?;
        return captured.checked_add(later).ok_or_else(wrong);
    }
    if let Ok(millis) = text.parse() {
        return Ok(millis);
    }
    let time = humantime::parse_rfc3339_weak(text).map_err(|_| wrong())?;
    let since = time
        .duration_since(std::time::UNIX_EPOCH)
        .map_err(|_| wrong())?;
    i64::try_from(since.as_millis()).map_err(|_| wrong())
}

/// The storage: as everywhere, or a directory. A plugin that never asks for
/// storage needs none.
fn store(
    config: &Config,
    clock: &SharedClock,
    inspection: &Inspection,
) -> anyhow::Result<(Store, Option<TempDir>)> {
    let open =
        |uri: &aedile_storage::StorageUri| Store::open(uri, StoreOptions::default(), clock.clone());
    let directory = |path: &Path| {
        let path = std::path::absolute(path)?;
        Ok::<_, anyhow::Error>(open(&format!("file://{}", path.display()).parse()?)?)
    };
    match config.text(settings::STORAGE) {
        Some(text) if !text.contains("://") => {
            let path = Path::new(text);
            if !path.is_dir() {
                return Err(config
                    .wrong(settings::STORAGE, format!("`{text}` is not a directory"))
                    .into());
            }
            Ok((directory(path)?, None))
        }
        Some(_) => Ok((open(&config.storage()?)?, None)),
        None if asks_for_storage(inspection) => Err(config.missing(settings::STORAGE).into()),
        None => {
            let empty = tempfile::tempdir()?;
            Ok((directory(empty.path())?, Some(empty)))
        }
    }
}

fn asks_for_storage(inspection: &Inspection) -> bool {
    inspection
        .imports
        .iter()
        .any(|grant| grant.to_string().starts_with("storage."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_three_ways() {
        for (text, expected) in [
            ("1796000000000", 1_796_000_000_000),
            ("+90s", 91_000),
            ("1970-01-01T00:00:05Z", 5_000),
            ("1970-01-01 00:00:05", 5_000),
        ] {
            assert_eq!(at(text, 1_000), Ok(expected), "{text}");
        }
        for text in ["tomorrow", "+soon", "1969-01-01T00:00:00Z", "+99999999999y"] {
            let error = at(text, 0).expect_err(text);
            assert!(error.contains("write 2026-12-31T23:59:59Z"), "{error}");
        }
    }
}
