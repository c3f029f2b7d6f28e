//! Keeps the set of plugins up to date while the runtime runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::SharedClock;
use aedile_engine::Engine;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::Problem;
use super::directory::Directory;
use super::load::{Granting, Loaded, load};
use crate::error::RuntimeError;
use crate::options::RuntimeOptions;

/// The plugins that run, by name, and why others do not.
#[derive(Clone, Debug, Default)]
pub(crate) struct PluginSet {
    pub(crate) plugins: BTreeMap<String, Arc<Loaded>>,
    pub(crate) problems: Vec<Problem>,
}

/// Where the plugins come from.
#[derive(Debug)]
pub(crate) struct Sources {
    engine: Arc<Engine>,
    clock: SharedClock,
    builtins: Vec<Arc<Loaded>>,
    directory: Option<Directory>,
    rescan: Duration,
    settle: Duration,
}

impl Sources {
    /// Load the built-in plugins and look at the directory until it has settled.
    pub(crate) async fn open(
        options: &RuntimeOptions,
        engine: Arc<Engine>,
        clock: SharedClock,
    ) -> Result<(Self, PluginSet), RuntimeError> {
        let mut builtins = Vec::with_capacity(options.builtins.len());
        for builtin in &options.builtins {
            let broken = |reason: String| RuntimeError::Builtin {
                name: builtin.name.clone(),
                reason,
            };
            let loaded = load(
                &engine,
                builtin.bytes.clone(),
                builtin.settings.clone(),
                Granting::Builtin,
                "built-in".to_owned(),
            )
            .await
            .map_err(|unfit| broken(unfit.text))?;
            if loaded.name() != builtin.name {
                return Err(broken(format!("its manifest names it `{}`", loaded.name())));
            }
            builtins.push(loaded);
        }
        let directory = match &options.plugin_dir {
            Some(path) => {
                // A directory that is not there at the start is a mistake; one
                // that goes away later is a problem that is shown.
                std::fs::read_dir(path).map_err(|error| RuntimeError::Directory {
                    path: path.clone(),
                    reason: error.to_string(),
                })?;
                let reserved = options.builtins.iter().map(|b| b.name.clone()).collect();
                let mut directory = Directory::new(path.clone(), options.settle, reserved);
                directory.look_until_settled(&engine, &clock).await;
                Some(directory)
            }
            None => None,
        };
        let mut sources = Self {
            engine,
            clock,
            builtins,
            directory,
            rescan: options.rescan,
            settle: options.settle,
        };
        let set = sources.set();
        Ok((sources, set))
    }

    fn set(&mut self) -> PluginSet {
        let (found, problems) = match &mut self.directory {
            Some(directory) => directory.resolve(),
            None => Default::default(),
        };
        PluginSet {
            plugins: self
                .builtins
                .iter()
                .cloned()
                .chain(found)
                .map(|loaded| (loaded.name().to_owned(), loaded))
                .collect(),
            problems,
        }
    }

    /// Follow the directory until `stop`; publish each change.
    pub(crate) async fn follow(
        mut self,
        set: Arc<watch::Sender<Arc<PluginSet>>>,
        stop: CancellationToken,
        path: Option<std::path::PathBuf>,
    ) {
        let event = Arc::new(Notify::new());
        // Without events the regular look still finds every change.
        let _watcher = path
            .as_deref()
            .and_then(|path| watch_directory(path, event.clone()));
        let mut wait = self.rescan;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = event.notified() => {}
                () = self.clock.sleep(wait) => {}
            }
            let Some(directory) = &mut self.directory else {
                stop.cancelled().await;
                return;
            };
            let seen = directory.look(&self.engine, &self.clock).await;
            wait = if seen.unsettled {
                self.settle
            } else {
                self.rescan
            };
            if seen.changed {
                let next = Arc::new(self.set());
                set.send_replace(next);
            }
        }
    }
}

fn watch_directory(path: &Path, event: Arc<Notify>) -> Option<RecommendedWatcher> {
    let woken = move |seen: notify::Result<notify::Event>| {
        if !seen.as_ref().is_ok_and(only_read) {
            event.notify_one();
        }
    };
    let watcher = notify::recommended_watcher(woken).and_then(|mut watcher: RecommendedWatcher| {
        watcher.watch(path, RecursiveMode::NonRecursive)?;
        Ok(watcher)
    });
    match watcher {
        Ok(watcher) => Some(watcher),
        Err(error) => {
            tracing::warn!(directory = %path.display(), %error, "no events from the plugin directory; it is looked at regularly instead");
            None
        }
    }
}

/// Whether an event says only that somebody read: our own look does.
fn only_read(event: &notify::Event) -> bool {
    use notify::event::{AccessKind, AccessMode, EventKind};
    matches!(event.kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write))
}
