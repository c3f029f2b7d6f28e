//! Keeps the set of plugins up to date while the runtime runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::SharedClock;
use aedile_engine::Engine;
use aedile_log::View;
use aedile_state::State;
use aedile_storage::Store;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::Problem;
use super::deployed::{Deployed, Deployments, Kit};
use super::directory::Directory;
use super::load::{Granting, Loaded, load};
use crate::error::RuntimeError;
use crate::options::RuntimeOptions;

/// Least time between two looks at what the log wants: rows come in many views.
const LOOK: Duration = Duration::from_millis(20);

/// How long a single pass waits for what is deployed.
pub(crate) const LOADING: Duration = Duration::from_secs(120);

/// Where deployed plugins come from.
#[derive(Debug)]
pub(crate) struct Origin<'a> {
    /// What is wanted.
    pub(crate) state: &'a State,
    /// Where their modules are.
    pub(crate) store: Store,
    /// How long they are waited for at the start.
    pub(crate) bound: Duration,
}

/// The plugins that run, by name, and why others do not.
#[derive(Clone, Debug, Default)]
pub(crate) struct PluginSet {
    pub(crate) plugins: BTreeMap<String, Arc<Loaded>>,
    pub(crate) problems: Vec<Problem>,
    /// How those stand that were deployed.
    pub(crate) deployed: BTreeMap<String, Deployed>,
}

/// Where the plugins come from.
#[derive(Debug)]
pub(crate) struct Sources {
    engine: Arc<Engine>,
    clock: SharedClock,
    builtins: Vec<Arc<Loaded>>,
    deployed: Deployments,
    directory: Option<Directory>,
    rescan: Duration,
    settle: Duration,
}

impl Sources {
    /// Load the built-in plugins and those that the state wants, and look at the
    /// directory until it has settled.
    pub(crate) async fn open(
        options: &RuntimeOptions,
        engine: Arc<Engine>,
        clock: SharedClock,
        origin: Origin<'_>,
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
            let destructive: Vec<String> = loaded
                .manifest()
                .grants
                .iter()
                .filter(|grant| loaded.settings.enabled && grant.destructive())
                .map(ToString::to_string)
                .collect();
            if !destructive.is_empty() {
                tracing::warn!(
                    plugin = loaded.name(),
                    grants = destructive.join(", "),
                    "enabled with destructive grants"
                );
            }
            if loaded.name() != builtin.name {
                return Err(broken(format!("its manifest names it `{}`", loaded.name())));
            }
            builtins.push(loaded);
        }
        let Origin {
            state,
            store,
            bound,
        } = origin;
        let kit = Kit::new(engine.clone(), store, options.trust.clone(), &builtins);
        let mut deployed = Deployments::new(kit, clock.clone(), options.seed);
        deployed.look(state);
        let directory = match &options.plugin_dir {
            Some(path) => {
                // A directory that is not there at the start is a mistake; one
                // that goes away later is a problem that is shown.
                std::fs::read_dir(path).map_err(|error| RuntimeError::Directory {
                    path: path.clone(),
                    reason: error.to_string(),
                })?;
                let reserved = options.builtins.iter().map(|b| b.name.clone()).collect();
                let trust = options.trust.clone();
                let mut directory = Directory::new(path.clone(), options.settle, reserved, trust);
                directory.look_until_settled(&engine, &clock).await;
                Some(directory)
            }
            None => None,
        };
        // A node that begins with what the binary has would run an older version
        // for a moment. A store that does not answer must not hold it up.
        if clock.timeout(bound, deployed.settled()).await.is_err() {
            tracing::warn!("some deployed plugins are not loaded yet; starting without them");
        }
        let mut sources = Self {
            engine,
            clock,
            builtins,
            deployed,
            directory,
            rescan: options.rescan,
            settle: options.settle,
        };
        let set = sources.set();
        Ok((sources, set))
    }

    fn set(&mut self) -> PluginSet {
        let (found, mut problems) = match &mut self.directory {
            Some(directory) => directory.resolve(),
            None => Default::default(),
        };
        let mut plugins: BTreeMap<String, Arc<Loaded>> = self
            .builtins
            .iter()
            .map(|loaded| (loaded.name().to_owned(), loaded.clone()))
            .collect();
        // What was deployed stands before what the binary has.
        for (name, loaded) in self.deployed.chosen() {
            match loaded {
                Some(loaded) => plugins.insert(name.to_owned(), loaded.clone()),
                None => plugins.remove(name),
            };
        }
        let taken: BTreeMap<&str, u64> = self.deployed.names().collect();
        for loaded in found {
            let name = loaded.name();
            match taken.get(name) {
                None => {
                    plugins.insert(name.to_owned(), loaded);
                }
                Some(revision) => problems.push(Problem {
                    origin: loaded.origin.clone(),
                    plugin: Some(name.to_owned()),
                    text: format!(
                        "the plugin `{name}` is deployed (revision {revision}), which runs \
                         instead; remove the file, or the deployment with `aedile plugin remove \
                         {name}`"
                    ),
                    keeps_running: false,
                }),
            }
        }
        problems.extend(self.deployed.problems());
        PluginSet {
            plugins,
            problems,
            deployed: self.deployed.status(),
        }
    }

    /// Follow the log and the directory until `stop`; publish each change.
    pub(crate) async fn follow(
        mut self,
        set: Arc<watch::Sender<Arc<PluginSet>>>,
        mut views: watch::Receiver<Arc<View>>,
        stop: CancellationToken,
        path: Option<std::path::PathBuf>,
    ) {
        let event = Arc::new(Notify::new());
        // Without events the regular look still finds every change.
        let _watcher = path
            .as_deref()
            .and_then(|path| watch_directory(path, event.clone()));
        let mut look = self.clock.boot() + self.rescan;
        // What was applied since the start.
        views.mark_changed();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = event.notified() => look = self.clock.boot(),
                () = self.clock.sleep_until(look) => {}
                changed = views.changed() => {
                    if changed.is_err() {
                        stop.cancelled().await;
                        return;
                    }
                    let view = views.borrow_and_update().clone();
                    self.deployed.look(&view.state);
                    self.publish(&set);
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = self.clock.sleep(LOOK) => {}
                    }
                }
                () = self.deployed.progress() => self.publish(&set),
            }
            if self.clock.boot() < look {
                continue;
            }
            let Some(directory) = &mut self.directory else {
                look = self.clock.boot() + self.rescan;
                continue;
            };
            let seen = directory.look(&self.engine, &self.clock).await;
            let wait = if seen.unsettled {
                self.settle
            } else {
                self.rescan
            };
            look = self.clock.boot() + wait;
            if seen.changed {
                self.publish(&set);
            }
        }
    }

    /// Publish the set if it is another one.
    fn publish(&mut self, set: &watch::Sender<Arc<PluginSet>>) {
        let next = self.set();
        set.send_if_modified(|now| {
            let changed = !now.same(&next);
            if changed {
                *now = Arc::new(next);
            }
            changed
        });
    }
}

impl PluginSet {
    fn same(&self, other: &Self) -> bool {
        self.problems == other.problems
            && self.deployed == other.deployed
            && self.plugins.len() == other.plugins.len()
            && self
                .plugins
                .iter()
                .zip(&other.plugins)
                .all(|((name, loaded), (other, next))| name == other && Arc::ptr_eq(loaded, next))
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
