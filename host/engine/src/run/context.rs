//! What a running tick has at hand.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aedile_clock::{BootInstant, SharedClock};

use super::end::Ended;
use super::meter::Meter;
use super::quota::Quota;
use crate::host::{Call, Host};
use crate::limits::{LimitName, Limits};
use crate::tick::{Control, Metrics, TickInput, Usage};
use crate::wit::HostError;

/// A host call under way.
pub(crate) type Pending<'a, T> = Pin<Box<dyn Future<Output = Call<T>> + Send + 'a>>;

/// Why a tick has to end. Set once; the first reason stays.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cut(Arc<OnceLock<Ended>>);

impl Cut {
    pub(crate) fn set(&self, reason: Ended) {
        let _ = self.0.set(reason);
    }

    pub(crate) fn get(&self) -> Option<&Ended> {
        self.0.get()
    }
}

/// What a running tick has at hand.
pub(crate) struct Context {
    pub(crate) clock: SharedClock,
    pub(crate) input: TickInput,
    /// None while a configuration is checked.
    pub(crate) host: Option<Box<dyn Host>>,
    pub(crate) limits: Limits,
    pub(crate) control: Control,
    pub(crate) meter: Meter,
    pub(crate) quota: Quota,
    pub(crate) cut: Cut,
    pub(crate) started: BootInstant,
    pub(crate) usage: Usage,
    pub(crate) metrics: Metrics,
    /// Bytes of log lines so far.
    pub(crate) logged: usize,
    /// The last line logged as an error.
    pub(crate) last_words: Option<String>,
}

impl Context {
    pub(crate) fn new(
        clock: SharedClock,
        input: TickInput,
        host: Option<Box<dyn Host>>,
        limits: Limits,
        control: Control,
    ) -> Self {
        Self {
            meter: Meter::new(clock.clone()),
            quota: Quota::new(&limits),
            cut: Cut::default(),
            started: clock.boot(),
            usage: Usage::default(),
            metrics: Metrics::default(),
            logged: 0,
            last_words: None,
            clock,
            input,
            host,
            limits,
            control,
        }
    }

    /// How long it has run.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.boot().since(self.started)
    }

    /// Whether the tick may go on.
    pub(crate) fn standing(&self) -> Result<(), Ended> {
        if let Some(reason) = self.cut.get() {
            return Err(reason.clone());
        }
        if !(self.control.authority)() {
            return Err(Ended::LeaseLost);
        }
        if self.meter.spent() >= self.limits.cpu {
            return Err(Ended::limit(
                LimitName::Cpu,
                format!("its code ran for {:?}", self.limits.cpu),
            ));
        }
        if self.elapsed() >= self.limits.wall {
            return Err(over_wall(&self.limits));
        }
        Ok(())
    }

    /// Ask the host for something in memory.
    pub(crate) fn read<T>(
        &mut self,
        function: &'static str,
        call: impl FnOnce(&mut dyn Host) -> T,
    ) -> Result<T, Ended> {
        self.standing()?;
        let host = self.host.as_deref_mut().ok_or(Ended::Barred(function))?;
        let answer = call(host);
        self.standing()?;
        Ok(answer)
    }

    /// Ask the host for something that it may have to wait for. The wait is not
    /// charged. What comes after the end of the term does not reach the plugin.
    pub(crate) async fn ask<T>(
        &mut self,
        function: &'static str,
        call: impl for<'a> FnOnce(&'a mut dyn Host) -> Pending<'a, T> + Send,
    ) -> Result<Result<T, HostError>, Ended> {
        self.standing()?;
        let meter = self.meter.clone();
        let host = self.host.as_deref_mut().ok_or(Ended::Barred(function))?;
        let answer = meter.free(call(host)).await;
        self.standing()?;
        Ok(answer?.map_err(|error| match error {
            HostError::InvalidArgument(text) => {
                HostError::InvalidArgument(crate::text::line(&text))
            }
            HostError::Unavailable(text) => HostError::Unavailable(crate::text::line(&text)),
        }))
    }

    /// Count commands about to be proposed.
    pub(crate) fn count_commands(&mut self, more: u64) -> Result<(), Ended> {
        let sum = self.usage.commands.saturating_add(more);
        if sum > self.limits.commands {
            return Err(Ended::limit(
                LimitName::Commands,
                format!(
                    "it was to propose {sum} commands; {} are allowed",
                    self.limits.commands
                ),
            ));
        }
        self.usage.commands = sum;
        Ok(())
    }

    /// Count requests about to be sent to the store.
    pub(crate) fn count_storage(&mut self, more: u64) -> Result<(), Ended> {
        let sum = self.usage.storage_operations.saturating_add(more);
        let limit = self.limits.storage_operations;
        if sum > limit {
            return Err(Ended::limit(
                LimitName::StorageOperations,
                format!("it was to send {sum} requests to the store; {limit} are allowed"),
            ));
        }
        self.usage.storage_operations = sum;
        Ok(())
    }
}

/// The end of a tick that ran too long.
pub(crate) fn over_wall(limits: &Limits) -> Ended {
    Ended::limit(
        LimitName::Wall,
        format!("it took longer than {:?}", limits.wall),
    )
}
