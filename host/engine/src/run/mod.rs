//! One call of a plugin: a fresh store, watched from both sides.
//!
//! From inside, an epoch callback every 10 ms and a check around every host
//! call. From outside, a watch that looks as often while the plugin waits in a
//! host call, where no epoch reaches it. Either sets the reason; the tick ends
//! with the first.

mod context;
mod end;
mod interface;
mod meter;
mod page;
mod quota;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures_util::FutureExt;
use wasmtime::{Store, UpdateDeadline};

use crate::bindings::generated::PluginPre;
use crate::engine::Shared;
use crate::host::Host;
use crate::limits::Limits;
use crate::text::line;
use crate::tick::{Control, Metrics, TickEnd, Usage};
use crate::ticker::PERIOD;
use crate::wit::{Failure, Report};
pub(crate) use context::Context;
use context::{Cut, over_wall};
use end::{Ended, classify};

/// Which export to call.
pub(crate) enum Call {
    Tick,
    ValidateConfig(String),
}

/// What an export returned.
pub(crate) enum Returned {
    Tick(Result<Report, Failure>),
    Config(Result<(), String>),
}

/// A call that has ended.
pub(crate) struct Ran {
    pub(crate) end: Result<Returned, TickEnd>,
    pub(crate) usage: Usage,
    pub(crate) metrics: Metrics,
    pub(crate) host: Option<Box<dyn Host>>,
}

/// Run one call to its end. A panic of the host ends only this. Dropping the
/// future drops the instance and whatever it waits for.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    pre: &PluginPre<Context>,
    call: Call,
    context: Context,
) -> Ran {
    let started = context.started;
    // Nothing that it may leave half done is used afterwards.
    let ran = AssertUnwindSafe(in_store(shared, pre, call, context)).catch_unwind();
    ran.await.unwrap_or_else(|payload| Ran {
        end: Err(TickEnd::HostError(format!(
            "it panicked: {}",
            panic_text(payload.as_ref())
        ))),
        usage: Usage {
            wall: shared.clock.boot().since(started),
            ..Usage::default()
        },
        metrics: Metrics::default(),
        host: None,
    })
}

fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    line(text.unwrap_or("without a message"))
}

async fn in_store(
    shared: &Arc<Shared>,
    pre: &PluginPre<Context>,
    call: Call,
    context: Context,
) -> Ran {
    let watch = Watch {
        shared: shared.clone(),
        limits: context.limits.clone(),
        control: context.control.clone(),
        cut: context.cut.clone(),
    };
    let meter = context.meter.clone();
    let mut store = Store::new(&shared.wasm, context);
    store.limiter(|context| &mut context.quota);
    let limits = &watch.limits;
    store.set_hostcall_fuel(limits.host_call_bytes);
    store.set_max_component_handles(limits.handles);
    // Counted, never short: what bounds a tick is its time.
    let counts = shared.options.count_fuel && store.set_fuel(u64::MAX).is_ok();
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|store| {
        store.data().standing()?;
        Ok(UpdateDeadline::YieldCustom(
            1,
            Box::pin(tokio::task::yield_now()),
        ))
    });
    let returned = watch
        .over(meter.charged(invoke(&mut store, pre, call)))
        .await;
    let left = if counts { store.get_fuel().ok() } else { None };
    let context = store.into_data();
    let end = match returned {
        Ok(Ok(returned)) => Ok(returned),
        Ok(Err(error)) => Err(classify(&error, context.last_words.as_deref())),
        Err(ended) => Err(ended.into()),
    };
    let usage = Usage {
        cpu: context.meter.spent(),
        wall: context.elapsed(),
        peak_memory: context.quota.peak,
        fuel: left.map_or(0, |left| u64::MAX - left),
        ..context.usage
    };
    Ran {
        end,
        usage,
        metrics: context.metrics,
        host: context.host,
    }
}

async fn invoke(
    store: &mut Store<Context>,
    pre: &PluginPre<Context>,
    call: Call,
) -> wasmtime::Result<Returned> {
    let plugin = pre.instantiate_async(&mut *store).await?;
    let exports = plugin.aedile_maintenance_maintenance();
    match call {
        Call::Tick => exports.call_tick(store).await.map(Returned::Tick),
        Call::ValidateConfig(config) => exports
            .call_validate_config(store, &config)
            .await
            .map(Returned::Config),
    }
}

/// Watches a call from outside.
struct Watch {
    shared: Arc<Shared>,
    limits: Limits,
    control: Control,
    cut: Cut,
}

impl Watch {
    /// Await `call`. Once it has to end, a host call in flight has the grace
    /// period to end; then the call is dropped, and the reason returned.
    async fn over<F: Future>(&self, call: F) -> Result<F::Output, Ended> {
        let clock = &self.shared.clock;
        let started = clock.boot();
        let mut call = pin!(call);
        let mut cut_at = None;
        loop {
            tokio::select! {
                biased;
                output = &mut call => return Ok(output),
                () = clock.sleep(PERIOD) => {}
            }
            let now = clock.boot();
            if now.since(started) >= self.limits.wall {
                self.cut.set(over_wall(&self.limits));
            } else if !(self.control.authority)() {
                self.cut.set(Ended::LeaseLost);
            }
            let Some(reason) = self.cut.get() else {
                continue;
            };
            let since = *cut_at.get_or_insert(now);
            if now.since(since) >= self.limits.grace {
                return Err(reason.clone());
            }
        }
    }
}
