//! One term whose ticks the caller makes, so that a benchmark can run the same
//! plugin natively and in Wasm against the same guarded host functions.

use std::sync::Arc;
use std::time::Duration;

use aedile_engine::{Control, Host};
use aedile_lease::Keeper;
use aedile_log::Log;
use tokio_util::sync::CancellationToken;

use super::{Parts, close, share};
use crate::backend::{Backend as _, Live, Trouble};
use crate::error::RuntimeError;
use crate::guard::{Guards, KeyRule, Tries};
use crate::host::PluginHost;
use crate::options::RuntimeOptions;
use crate::pass::Held;
use crate::shared::Shared;
use crate::source::PluginSet;

/// A term, held until [`Ticks::end`].
#[derive(Debug)]
pub struct Ticks {
    shared: Arc<Shared>,
    keeper: Keeper,
    held: Held,
}

impl Ticks {
    /// Catch up with the log and wait for the lease.
    ///
    /// # Errors
    /// The lease was not to be had, or the log does not answer.
    pub async fn begin(
        options: RuntimeOptions,
        parts: Parts,
        wait: Duration,
    ) -> Result<Self, RuntimeError> {
        let (shared, keeper) = share(options, parts, PluginSet::default(), Tries::Once);
        let stop = CancellationToken::new();
        match Held::begin(&shared, &keeper, Some(wait), &stop).await {
            Ok(held) => Ok(Self {
                shared,
                keeper,
                held,
            }),
            Err(error) => {
                close(keeper, shared.log.clone()).await;
                Err(error)
            }
        }
    }

    fn guards(&self) -> &Arc<Guards<Live>> {
        &self.held.guards
    }

    /// The host of one tick of this plugin, on a view that has caught up with the
    /// log, and the database's time in milliseconds.
    ///
    /// # Errors
    /// The term is over, or the log does not answer.
    pub async fn host(&self, plugin: &str) -> Result<(Box<dyn Host>, i64), RuntimeError> {
        let backend = &self.guards().backend;
        let pinned = async { Ok((backend.fresh().await?, backend.now().await?.0)) };
        let (view, now) = pinned.await.map_err(|trouble| match trouble {
            Trouble::LeaseLost => RuntimeError::LeaseLost,
            Trouble::Unavailable(reason) => RuntimeError::Unavailable { reason },
        })?;
        let host = PluginHost {
            guards: self.guards().clone(),
            plugin: plugin.into(),
            view,
            now,
            keys: KeyRule::new(plugin, Vec::new()),
            effects: Arc::default(),
            advanced: Arc::default(),
        };
        Ok((Box::new(host), now))
    }

    /// What a tick is to heed.
    pub fn control(&self) -> Control {
        let authority = self.guards().backend.authority.clone();
        Control {
            authority: Arc::new(move || authority.holds()),
            stop: CancellationToken::new(),
        }
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.shared.log
    }

    /// Join what is in flight, release the lease, close the parts.
    pub async fn end(self) {
        self.held.end(&self.keeper).await;
        close(self.keeper, self.shared.log.clone()).await;
    }
}
