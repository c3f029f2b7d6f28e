//! Plugins that were deployed: what the control range of the log wants, fetched
//! by digest from the object store.
//!
//! The newest revision of a name is wanted; the newest that can run runs. What
//! runs goes on until a newer one is ready, so several deploys in between are
//! one swap, to the last. A module is compiled once, whatever settings change
//! around it, and forgotten with the last revision that has it.

mod entry;
mod fetch;
mod one;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{BootInstant, SharedClock};
use aedile_engine::Plugin;
use aedile_state::State;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinSet};

pub(crate) use fetch::Kit;
pub(crate) use one::SELF;

use self::entry::{Failed, Verdict};
use self::fetch::{Job, Trouble};
use self::one::Deployment;
use super::Problem;
use super::load::Loaded;
use crate::control::{self, ModuleRef, StoredModule};
use crate::entropy::Entropy;
use crate::status::{RolledBack, Wanted};

/// First wait before a revision that could not be had is tried again.
const FIRST: Duration = Duration::from_secs(1);
/// Longest such wait.
const LONGEST: Duration = Duration::from_secs(60);

/// How a deployed plugin stands on this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deployed {
    pub(crate) wanted: Wanted,
    pub(crate) rolled_back: Option<RolledBack>,
}

/// What a module is known by.
fn key(stored: &StoredModule) -> (String, Option<String>) {
    (stored.digest.clone(), stored.signature.clone())
}

/// A revision that was loaded, or why not.
struct Fetched {
    job: Job,
    outcome: Result<Arc<Loaded>, Trouble>,
}

/// The deployed plugins of this node.
pub(crate) struct Deployments {
    kit: Arc<Kit>,
    clock: SharedClock,
    entropy: Entropy,
    plugins: BTreeMap<String, Deployment>,
    tasks: JoinSet<Fetched>,
    running: HashMap<Id, (String, u64)>,
    compiling: mpsc::UnboundedSender<(String, u64)>,
    stages: mpsc::UnboundedReceiver<(String, u64)>,
}

impl std::fmt::Debug for Deployments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deployments")
            .field("plugins", &self.plugins)
            .finish_non_exhaustive()
    }
}

impl Deployments {
    pub(crate) fn new(kit: Kit, clock: SharedClock, seed: Option<u64>) -> Self {
        let (compiling, stages) = mpsc::unbounded_channel();
        Self {
            kit: Arc::new(kit),
            clock,
            entropy: Entropy::new(seed),
            plugins: BTreeMap::new(),
            tasks: JoinSet::new(),
            running: HashMap::new(),
            compiling,
            stages,
        }
    }

    /// Take note of what a view wants, and begin to load what that needs. Costs
    /// little when nothing was deployed since.
    pub(crate) fn look(&mut self, state: &State) {
        let names = control::names(state);
        // A log that was restored may know less.
        self.plugins
            .retain(|name, _| names.binary_search(name).is_ok());
        for name in names {
            let head = one::head(state, &name, self.plugins.get(&name).map(|one| one.head));
            let deployment = self.plugins.entry(name.clone()).or_default();
            if deployment.head != head {
                deployment.read(state, &name, head);
            }
        }
        self.advance();
    }

    /// Decide what runs, and begin to load what is lacking.
    fn advance(&mut self) {
        let now = self.clock.boot();
        let compiled = self.compiled();
        for (name, deployment) in &mut self.plugins {
            let builtin = self.kit.builtins.get(name);
            for mut job in deployment.settle(name, builtin, now) {
                if let ModuleRef::Stored(stored) = &job.record.module {
                    job.compiled = compiled.get(&key(stored)).cloned();
                }
                let (kit, compiling) = (self.kit.clone(), self.compiling.clone());
                let place = (job.name.clone(), job.number);
                let task = self.tasks.spawn(async move {
                    let outcome = kit.load(&job, &compiling).await;
                    Fetched { job, outcome }
                });
                self.running.insert(task.id(), place);
            }
        }
    }

    /// The modules that are compiled, each with the signature that it was taken
    /// with: another one has to be judged anew.
    fn compiled(&self) -> BTreeMap<(String, Option<String>), Plugin> {
        self.plugins
            .values()
            .flat_map(Deployment::compiled)
            .map(|(stored, plugin)| (key(stored), plugin.clone()))
            .collect()
    }

    /// Wait until something has got further: a module is there, or a failed
    /// revision is due to be tried again. Safe to drop.
    pub(crate) async fn progress(&mut self) {
        let due = self.due();
        let clock = self.clock.clone();
        let retry = async {
            match due {
                Some(due) => clock.sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(ended) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => {
                let (id, outcome) = match ended {
                    Ok((id, fetched)) => (id, Ok(fetched)),
                    Err(error) => (error.id(), Err(error.to_string())),
                };
                if let Some((name, number)) = self.running.remove(&id) {
                    self.ended(&name, number, outcome);
                }
            }
            Some((name, number)) = self.stages.recv() => {
                if let Some(deployment) = self.plugins.get_mut(&name) {
                    deployment.compiling(number);
                }
            }
            () = retry => {}
        }
        self.advance();
    }

    fn ended(&mut self, name: &str, number: u64, outcome: Result<Fetched, String>) {
        let (again, tries) = self.next_try(name, number);
        let verdict = match outcome {
            Ok(Fetched {
                outcome: Ok(loaded),
                ..
            }) => Verdict::Ready(loaded),
            Ok(Fetched {
                outcome: Err(Trouble::Verdict(verdict)),
                ..
            }) => {
                match &verdict {
                    Verdict::Refused(reason) => {
                        tracing::error!(plugin = name, revision = number, %reason, "revision refused");
                    }
                    _ => tracing::warn!(
                        plugin = name,
                        revision = number,
                        "the revision wants more than it was granted; it needs approval"
                    ),
                }
                verdict
            }
            Ok(Fetched {
                outcome: Err(Trouble::Failed { reason, passing }),
                job,
            }) => {
                if passing {
                    tracing::warn!(plugin = name, revision = number, %reason, "revision not to be had yet");
                } else {
                    let digest = job.record.module.digest().unwrap_or_default();
                    tracing::error!(plugin = name, revision = number, digest, %reason, "revision refused");
                }
                Verdict::Failed(Failed {
                    reason,
                    passing,
                    tries,
                    again,
                })
            }
            Err(reason) => {
                tracing::error!(plugin = name, revision = number, %reason, "loading a revision died");
                Verdict::Failed(Failed {
                    reason,
                    passing: true,
                    tries,
                    again,
                })
            }
        };
        if let Some(deployment) = self.plugins.get_mut(name) {
            deployment.found(number, verdict);
        }
    }

    /// When a revision that fails now is tried again, and how often it was tried.
    fn next_try(&self, name: &str, number: u64) -> (BootInstant, u32) {
        let before = self.plugins.get(name).map_or(0, |one| one.tries(number));
        let wait = (FIRST * (1 << before.min(16))).min(LONGEST);
        (
            self.clock.boot() + self.entropy.spread(wait),
            before.saturating_add(1),
        )
    }

    /// When the next failed revision is due.
    fn due(&self) -> Option<BootInstant> {
        self.plugins.values().filter_map(Deployment::due).min()
    }

    /// Wait until everything that is wanted was tried once.
    pub(crate) async fn settled(&mut self) {
        while !self.tasks.is_empty() {
            self.progress().await;
        }
    }

    /// Names that are taken: no file runs under them.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, u64)> {
        self.plugins
            .iter()
            .filter(|(_, one)| !one.removed())
            .map(|(name, one)| (name.as_str(), one.head))
    }

    /// What runs under each name: none if nothing does.
    pub(crate) fn chosen(&self) -> impl Iterator<Item = (&str, Option<&Arc<Loaded>>)> {
        self.plugins
            .iter()
            .map(|(name, one)| (name.as_str(), one.chosen()))
    }

    /// How each stands.
    pub(crate) fn status(&self) -> BTreeMap<String, Deployed> {
        self.plugins
            .iter()
            .map(|(name, one)| (name, one.removed(), one.status(name)))
            // One that was taken back to what the binary has says so.
            .filter(|(_, removed, status)| !removed || status.rolled_back.is_some())
            .map(|(name, _, status)| (name.clone(), status))
            .collect()
    }

    /// Revisions that do not run although they are wanted, and why.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        self.plugins
            .iter()
            .filter_map(|(name, one)| one.problem(name))
            .collect()
    }
}
