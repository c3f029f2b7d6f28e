//! One tick of one plugin, and what it means for what comes next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use aedile_clock::UnixMillis;
use aedile_engine::{Control, Host, TickEnd, TickInput, Usage};
use aedile_log::View;

use crate::backend::{Backend, Trouble};
use crate::entropy::tick_seed;
use crate::guard::{Guards, KeyRule};
use crate::host::PluginHost;
use crate::schedule::Failure;
use crate::source::Loaded;

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Name of this node.
    pub(crate) node: String,
    /// Epoch of the lease.
    pub(crate) epoch: u64,
}

/// How a tick ended, as far as the runtime cares.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Described {
    /// One word.
    pub(crate) outcome: &'static str,
    /// What it says about itself, or what went wrong.
    pub(crate) text: String,
    /// What the failure policy makes of it; none if it is no failure.
    pub(crate) failure: Option<Failure>,
    /// The term is over.
    pub(crate) lost: bool,
}

/// A tick that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Ticked {
    pub(crate) started: UnixMillis,
    /// The tick's time, by the database's clock; none if it was not to be had.
    pub(crate) now: Option<UnixMillis>,
    /// Who asked for it; empty if it was due.
    pub(crate) asked: Vec<String>,
    pub(crate) took: Duration,
    pub(crate) end: Described,
    pub(crate) more: bool,
    pub(crate) done: u64,
    pub(crate) failed: u64,
    /// What its calls achieved: objects deleted, commands that changed something.
    pub(crate) effects: u64,
    /// It got on with something that takes several ticks.
    pub(crate) advanced: bool,
    pub(crate) cpu: Duration,
    /// All that it used.
    pub(crate) usage: Usage,
    pub(crate) peak_memory: usize,
    pub(crate) log_dropped: u64,
    pub(crate) counters: BTreeMap<String, u64>,
    pub(crate) gauges: BTreeMap<String, f64>,
}

impl Ticked {
    /// Whether the plugin is to tick again at once: it says that more is waiting
    /// and has achieved something, so it does not spin.
    pub(crate) fn goes_on(&self) -> bool {
        self.more
            && (self.effects > 0 || self.advanced)
            && self.end.failure.is_none()
            && !self.end.lost
    }

    /// One that has ended so, with nothing done.
    pub(super) fn ended(started: UnixMillis, end: &TickEnd) -> Self {
        Self {
            started,
            now: None,
            asked: Vec::new(),
            took: Duration::ZERO,
            end: describe(end),
            more: false,
            done: 0,
            failed: 0,
            effects: 0,
            advanced: false,
            cpu: Duration::ZERO,
            usage: Usage::default(),
            peak_memory: 0,
            log_dropped: 0,
            counters: BTreeMap::new(),
            gauges: BTreeMap::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn so(text: &str, failure: Option<Failure>, lost: bool) -> Self {
        let mut ticked = Self::ended(UnixMillis(0), &TickEnd::LeaseLost);
        text.clone_into(&mut ticked.end.text);
        ticked.end.failure = failure;
        ticked.end.lost = lost;
        ticked
    }

    /// One that could not begin.
    fn troubled(started: UnixMillis, trouble: Trouble) -> Self {
        match trouble {
            Trouble::LeaseLost => Self::ended(started, &TickEnd::LeaseLost),
            // Not the plugin's fault: it waits and is not charged.
            Trouble::Unavailable(reason) => Self::ended(
                started,
                &TickEnd::Retry {
                    after: Duration::ZERO,
                    reason,
                },
            ),
        }
    }

    /// Whether it did something or failed.
    pub(crate) fn worth_a_record(&self) -> bool {
        self.effects > 0
            || self.done > 0
            || self.failed > 0
            || self.end.failure.is_some()
            || !self.asked.is_empty()
    }
}

/// Sort the ways in which a tick ends.
pub(crate) fn describe(end: &TickEnd) -> Described {
    let (outcome, text, failure) = match end {
        TickEnd::Done(report) => ("done", report.summary.clone(), None),
        TickEnd::More(report) => ("more", report.summary.clone(), None),
        TickEnd::Retry { after, reason } => ("retry", reason.clone(), Some(Failure::Retry(*after))),
        TickEnd::Reject { reason } => ("reject", reason.clone(), Some(Failure::Reject)),
        TickEnd::Trap { message } => ("trap", message.clone(), Some(Failure::Fault)),
        TickEnd::Limit { which, detail } => (
            "limit",
            format!("limit `{}`: {detail}", which.as_str()),
            Some(Failure::Fault),
        ),
        TickEnd::LeaseLost => ("lease-lost", "the lease was lost".to_owned(), None),
        TickEnd::HostError(text) => ("host-error", text.clone(), Some(Failure::Fault)),
    };
    Described {
        outcome,
        text,
        failure,
        lost: matches!(end, TickEnd::LeaseLost),
    }
}

/// Run one tick on a view that has caught up with the log.
pub(crate) async fn tick<B: Backend + std::fmt::Debug>(
    guards: &Arc<Guards<B>>,
    loaded: &Loaded,
    identity: &Identity,
    control: Control,
) -> Ticked {
    let clock = guards.backend.clock().clone();
    let (began, started) = (clock.boot(), clock.unix());
    match guards.backend.fresh().await {
        Ok(view) => {
            tick_on(guards, loaded, identity, control, view, |host| {
                Box::new(host)
            })
            .await
        }
        Err(trouble) => Ticked {
            took: clock.boot().since(began),
            ..Ticked::troubled(started, trouble)
        },
    }
}

/// Run one tick on a view, its calls through what `wrap` makes of its host.
pub(crate) async fn tick_on<B: Backend + std::fmt::Debug>(
    guards: &Arc<Guards<B>>,
    loaded: &Loaded,
    identity: &Identity,
    control: Control,
    view: Arc<View>,
    wrap: impl FnOnce(PluginHost<B>) -> Box<dyn Host>,
) -> Ticked {
    let seed = tick_seed(loaded.plugin.digest(), view.index);
    tick_seeded(guards, loaded, identity, control, (view, seed), wrap).await
}

/// Run one tick on a view, with this seed.
pub(crate) async fn tick_seeded<B: Backend + std::fmt::Debug>(
    guards: &Arc<Guards<B>>,
    loaded: &Loaded,
    identity: &Identity,
    control: Control,
    (view, seed): (Arc<View>, u64),
    wrap: impl FnOnce(PluginHost<B>) -> Box<dyn Host>,
) -> Ticked {
    let clock = guards.backend.clock().clone();
    let (began, started) = (clock.boot(), clock.unix());
    let now = match guards.backend.now().await {
        Ok(now) => now,
        Err(trouble) => {
            return Ticked {
                took: clock.boot().since(began),
                ..Ticked::troubled(started, trouble)
            };
        }
    };
    let effects = Arc::new(AtomicU64::new(0));
    let advanced = Arc::new(AtomicBool::new(false));
    let name = loaded.name();
    let input = TickInput {
        now: now.0,
        plugin: name.to_owned(),
        node: identity.node.clone(),
        epoch: identity.epoch,
        config: loaded.config.clone(),
        seed,
    };
    let host = PluginHost {
        guards: guards.clone(),
        plugin: name.into(),
        view,
        now: now.0,
        keys: KeyRule::new(name, loaded.settings.kv_prefixes.clone()),
        effects: effects.clone(),
        advanced: advanced.clone(),
    };
    let limits = &loaded.settings.limits;
    let tick = loaded.plugin.tick(input, wrap(host), limits, control).await;
    let mut ticked = Ticked {
        now: Some(now),
        effects: effects.load(Ordering::Relaxed),
        advanced: advanced.load(Ordering::Relaxed),
        cpu: tick.usage.cpu,
        usage: tick.usage,
        peak_memory: tick.usage.peak_memory,
        log_dropped: tick.usage.log_dropped,
        counters: tick.metrics.counters,
        gauges: tick.metrics.gauges,
        took: clock.boot().since(began),
        ..Ticked::ended(started, &tick.end)
    };
    if let TickEnd::Done(report) | TickEnd::More(report) = &tick.end {
        ticked.done = report.done;
        ticked.failed = report.failed;
        ticked.more = report.more;
    }
    ticked
}
