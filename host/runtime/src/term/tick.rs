//! One tick of one plugin, and what it means for what comes next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aedile_clock::UnixMillis;
use aedile_engine::{Control, TickEnd, TickInput};

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
    pub(crate) took: Duration,
    pub(crate) end: Described,
    pub(crate) more: bool,
    pub(crate) done: u64,
    pub(crate) failed: u64,
    /// What its calls achieved: objects deleted, commands that changed something.
    pub(crate) effects: u64,
    pub(crate) cpu: Duration,
    pub(crate) peak_memory: usize,
    pub(crate) log_dropped: u64,
    pub(crate) counters: BTreeMap<String, u64>,
    pub(crate) gauges: BTreeMap<String, f64>,
}

impl Ticked {
    /// Whether the plugin is to tick again at once: it says that more is waiting
    /// and has achieved something, so it does not spin.
    pub(crate) fn goes_on(&self) -> bool {
        self.more && self.effects > 0 && self.end.failure.is_none() && !self.end.lost
    }

    /// Whether it did something or failed.
    pub(crate) fn worth_a_record(&self) -> bool {
        self.effects > 0 || self.done > 0 || self.failed > 0 || self.end.failure.is_some()
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
    let mut ticked = Ticked {
        started,
        took: Duration::ZERO,
        end: describe(&TickEnd::LeaseLost),
        more: false,
        done: 0,
        failed: 0,
        effects: 0,
        cpu: Duration::ZERO,
        peak_memory: 0,
        log_dropped: 0,
        counters: BTreeMap::new(),
        gauges: BTreeMap::new(),
    };
    let pinned =
        async { Ok::<_, Trouble>((guards.backend.fresh().await?, guards.backend.now().await?)) };
    let (view, now) = match pinned.await {
        Ok(pinned) => pinned,
        Err(Trouble::LeaseLost) => return ticked,
        Err(Trouble::Unavailable(text)) => {
            // Not the plugin's fault: it waits and is not charged.
            ticked.end = describe(&TickEnd::Retry {
                after: Duration::ZERO,
                reason: text,
            });
            ticked.took = clock.boot().since(began);
            return ticked;
        }
    };
    let effects = Arc::new(AtomicU64::new(0));
    let name = loaded.name();
    let input = TickInput {
        now: now.0,
        plugin: name.to_owned(),
        node: identity.node.clone(),
        epoch: identity.epoch,
        config: loaded.config.clone(),
        seed: tick_seed(loaded.plugin.digest(), view.index),
    };
    let host = PluginHost {
        guards: guards.clone(),
        plugin: name.into(),
        view,
        now: now.0,
        keys: KeyRule::new(name, loaded.settings.kv_prefixes.clone()),
        effects: effects.clone(),
    };
    let tick = loaded
        .plugin
        .tick(input, Box::new(host), &loaded.settings.limits, control)
        .await;
    if let TickEnd::Done(report) | TickEnd::More(report) = &tick.end {
        ticked.done = report.done;
        ticked.failed = report.failed;
        ticked.more = report.more;
    }
    ticked.end = describe(&tick.end);
    ticked.effects = effects.load(Ordering::Relaxed);
    ticked.cpu = tick.usage.cpu;
    ticked.peak_memory = tick.usage.peak_memory;
    ticked.log_dropped = tick.usage.log_dropped;
    ticked.counters = tick.metrics.counters;
    ticked.gauges = tick.metrics.gauges;
    ticked.took = clock.boot().since(began);
    ticked
}
