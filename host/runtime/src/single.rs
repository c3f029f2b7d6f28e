//! A single pass: the lease, one loop over all plugins, and the release.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aedile_clock::SharedClock;
use aedile_engine::Control;
use aedile_lease::{Authority, Keeper, Leadership, Term};
use aedile_log::Log;
use aedile_storage::Store;
use tokio_util::sync::CancellationToken;

use crate::backend::{Backend as _, Live, Trouble};
use crate::entropy::Entropy;
use crate::error::RuntimeError;
use crate::guard::{Aside, Guards, StoreTrust, Tries};
use crate::options::RuntimeOptions;
use crate::pass::{Went, drain, left_over};
use crate::runtime::{Outcome, PassTotals};
use crate::shared::detail;
use crate::source::PluginSet;
use crate::term::{Identity, Runs};

/// What a pass works with.
pub(crate) struct SinglePass<'a> {
    pub(crate) options: &'a RuntimeOptions,
    pub(crate) clock: SharedClock,
    pub(crate) log: Log,
    pub(crate) keeper: &'a Keeper,
    pub(crate) store: Store,
    pub(crate) stop: CancellationToken,
}

impl SinglePass<'_> {
    /// Acquire the lease, pass, release.
    pub(crate) async fn run(
        &self,
        set: &PluginSet,
        wait: Option<Duration>,
    ) -> Result<Outcome, RuntimeError> {
        let caught_up = tokio::select! {
            () = self.stop.cancelled() => return Err(RuntimeError::Stopped),
            caught_up = self.log.catch_up(self.options.catch_up) => caught_up,
        };
        caught_up.map_err(RuntimeError::Log)?;
        self.keeper.set_eligible(Ok(()));
        let (term, authority) = self.acquire(wait).await?;
        tracing::info!(epoch = term.epoch, holder = %term.holder, "leading");
        let guards = Arc::new(Guards::new(
            Live {
                log: self.log.clone(),
                store: self.store.clone(),
                authority: authority.clone(),
                clock: self.clock.clone(),
                stop: self.stop.clone(),
                catch_up: self.options.catch_up,
            },
            Arc::new(Aside::new(Tries::Once)),
            StoreTrust::new(self.options.confirm_empty_store),
            Arc::new(Entropy::new(self.options.seed)),
        ));
        let outcome = self.pass(&guards, set, &term, &authority).await;
        // Stop, then release: what was sent has been answered.
        guards.in_flight.close();
        guards.in_flight.wait().await;
        self.keeper.release(&term).await;
        outcome
    }

    async fn acquire(&self, wait: Option<Duration>) -> Result<(Term, Authority), RuntimeError> {
        let began = self.clock.boot();
        let mut leadership = self.keeper.leadership();
        let mut told = None;
        loop {
            let now = leadership.borrow_and_update().clone();
            if let Leadership::Holder { term, authority } = now {
                return Ok((term, authority));
            }
            let reason = detail(&now);
            if told.as_ref() != Some(&reason) {
                tracing::info!(%reason, "waiting for the lease");
                told = Some(reason.clone());
            }
            let waited = self.clock.boot().since(began);
            let left = wait.map(|wait| wait.saturating_sub(waited));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(RuntimeError::NoLease { waited, reason });
            }
            let out_of_time = async {
                match left {
                    Some(left) => self.clock.sleep(left).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.stop.cancelled() => return Err(RuntimeError::Stopped),
                changed = leadership.changed() => if changed.is_err() {
                    return Err(RuntimeError::NoLease { waited, reason });
                },
                () = out_of_time => {}
            }
        }
    }

    async fn pass(
        &self,
        guards: &Arc<Guards<Live>>,
        set: &PluginSet,
        term: &Term,
        authority: &Authority,
    ) -> Result<Outcome, RuntimeError> {
        let identity = Arc::new(Identity {
            node: self.options.node.clone(),
            epoch: term.epoch,
        });
        let control = || {
            let (authority, stop) = (authority.clone(), self.stop.clone());
            let holds = stop.clone();
            Control {
                authority: Arc::new(move || !holds.is_cancelled() && authority.holds()),
                stop,
            }
        };
        let mut runs: HashMap<String, Runs> = HashMap::new();
        let went = async {
            guards.backend.fresh().await?;
            drain(guards, set, &identity, control, async |loaded, ticked| {
                runs.entry(loaded.name().to_owned())
                    .or_insert_with(|| {
                        Runs::new(self.log.clone(), self.clock.clone(), identity.clone())
                    })
                    .note(loaded, ticked)
                    .await;
            })
            .await
        };
        let went = went.await.map_err(|trouble| self.failed(trouble))?;
        let view = match self.log.catch_up(self.options.catch_up).await {
            Ok(view) => view,
            Err(error) => return Err(RuntimeError::Log(error)),
        };
        let left = left_over(guards, &view.state);
        let totals = totals(guards, &went);
        let plugins: Vec<(String, String)> = went
            .into_iter()
            .filter_map(|went| Some((went.loaded.name().to_owned(), went.failure?)))
            .collect();
        let store_suspect = guards.trust.doubt();
        if left.parked.is_empty()
            && left.conflicts.is_empty()
            && left.failed.is_empty()
            && plugins.is_empty()
            && store_suspect.is_none()
        {
            return Ok(Outcome::Idle { totals });
        }
        Ok(Outcome::LeftOver {
            totals,
            parked: left.parked,
            conflicts: left.conflicts,
            failed: left.failed,
            plugins,
            store_suspect,
        })
    }

    fn failed(&self, trouble: Trouble) -> RuntimeError {
        match trouble {
            Trouble::LeaseLost if self.stop.is_cancelled() => RuntimeError::Stopped,
            Trouble::LeaseLost => RuntimeError::LeaseLost,
            Trouble::Unavailable(reason) => RuntimeError::Unavailable { reason },
        }
    }
}

fn totals(guards: &Guards<Live>, went: &[Went]) -> PassTotals {
    let counters = &guards.counters;
    PassTotals {
        ticks: went.iter().map(|went| went.ticks).sum(),
        deleted: counters.deleted.load(Ordering::Relaxed),
        cleaned: counters.cleaned.load(Ordering::Relaxed),
        expired: counters.expired.load(Ordering::Relaxed),
        commands: counters.commands.load(Ordering::Relaxed),
    }
}
