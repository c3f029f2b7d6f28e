//! Where a keeper shows its standing, and what ends a term without it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aedile_clock::{BootInstant, SharedClock};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::authority::Window;
use crate::protocol::Standing;
use crate::{Authority, Leadership, LeaseName, Term};

/// How long after the end of an authority its keeper may take to say so itself.
const GRACE: Duration = Duration::from_millis(20);

/// The standing, written by the keeper and, where the keeper is late, its guard.
pub(crate) struct Board {
    clock: SharedClock,
    lease: LeaseName,
    holder: String,
    shown: watch::Sender<Leadership>,
    window: Mutex<Option<(u64, Arc<Window>)>>,
}

impl Board {
    pub(crate) fn new(clock: SharedClock, lease: LeaseName, holder: String) -> Self {
        let reason = "starting".to_owned();
        Self {
            clock,
            lease,
            holder,
            shown: watch::Sender::new(Leadership::Ineligible { reason }),
            window: Mutex::default(),
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Leadership> {
        self.shown.subscribe()
    }

    pub(crate) fn now(&self) -> BootInstant {
        self.clock.boot()
    }

    pub(crate) fn holder(&self) -> &str {
        &self.holder
    }

    pub(crate) fn open(&self, epoch: u64, until: BootInstant) {
        let window = Arc::new(Window::new(self.clock.clone(), until));
        *self.lock() = Some((epoch, window));
    }

    /// Move the end of the term's authority; false if it has ended already.
    pub(crate) fn extend(&self, epoch: u64, until: BootInstant) -> bool {
        self.window(epoch)
            .is_some_and(|window| window.extend(until))
    }

    pub(crate) fn close(&self, epoch: u64) {
        if let Some(window) = self.window(epoch) {
            window.close();
        }
    }

    pub(crate) fn publish(&self, standing: Standing) {
        self.shown.send_replace(match standing {
            Standing::Ineligible { reason } => Leadership::Ineligible { reason },
            Standing::Follower { seen } => Leadership::Follower { seen },
            Standing::Unreachable { since, error } => Leadership::Unreachable { since, error },
            Standing::WrongRole { detail } => Leadership::WrongRole { detail },
            Standing::Holder { epoch } => match self.window(epoch) {
                Some(window) => Leadership::Holder {
                    term: Term {
                        lease: self.lease.clone(),
                        epoch,
                        holder: self.holder.clone(),
                    },
                    authority: Authority(window),
                },
                None => Leadership::Follower { seen: None },
            },
        });
    }

    /// The keeper is gone, however it went: nothing holds any more.
    pub(crate) fn abandon(&self, left: Leadership) {
        if let Some((_, window)) = self.lock().take() {
            window.close();
        }
        self.shown.send_replace(left);
    }

    /// Wait for the end of each term and show it, should the keeper not. Runs on
    /// a thread of its own, since the keeper's may be blocked.
    pub(crate) async fn guard(&self, stop: CancellationToken) {
        let mut shown = self.subscribe();
        loop {
            let holding = shown
                .borrow_and_update()
                .holding()
                .map(|(term, authority)| (term.epoch, authority.clone()));
            let over = async {
                match &holding {
                    Some((_, authority)) => {
                        authority.ended().await;
                        self.clock.sleep(GRACE).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                _ = shown.changed() => {}
                () = over => {
                    if let Some((epoch, _)) = &holding {
                        self.end(*epoch);
                    }
                }
            }
        }
    }

    fn end(&self, epoch: u64) {
        self.shown.send_if_modified(|shown| {
            let late = shown
                .holding()
                .is_some_and(|(term, authority)| term.epoch == epoch && !authority.holds());
            if late {
                *shown = Leadership::Unreachable {
                    since: self.clock.boot(),
                    error: "no renewal was confirmed in time".to_owned(),
                };
            }
            late
        });
    }

    fn window(&self, epoch: u64) -> Option<Arc<Window>> {
        let window = self.lock();
        window
            .as_ref()
            .filter(|(of, _)| *of == epoch)
            .map(|(_, window)| window.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(u64, Arc<Window>)>> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
