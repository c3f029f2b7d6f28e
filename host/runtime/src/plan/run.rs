//! The dry run: the pass's own loop over a scratch copy of the state.

use std::sync::Arc;
use std::time::Duration;

use aedile_engine::{Control, Engine};
use aedile_log::Reader;
use aedile_storage::{Store, object_key};
use tokio_util::sync::CancellationToken;

use super::{Plan, PlanTotals, PlannedOrphan, PlannedOrphans, PlannedTicks};
use crate::backend::{Backend as _, Dry};
use crate::entropy::Entropy;
use crate::error::RuntimeError;
use crate::guard::{Aside, Guards, StoreTrust, Tries};
use crate::options::RuntimeOptions;
use crate::pass::{Went, drain, left_over};
use crate::source::{LOADING, Origin, Sources};
use crate::stopfile;
use crate::term::Identity;

/// The adapters of a dry run: none of them writes.
#[derive(Debug)]
pub struct PlanParts {
    /// Time.
    pub clock: aedile_clock::SharedClock,
    /// The Wasm engine.
    pub engine: Arc<Engine>,
    /// The metadata log, read only.
    pub reader: Reader,
    /// The object store; only looked at.
    pub store: Store,
}

/// Compute what a pass would do now. Reads only.
///
/// # Errors
/// The database or the store cannot be read, or a built-in plugin does not load.
pub async fn plan(options: RuntimeOptions, parts: PlanParts) -> Result<Plan, RuntimeError> {
    options.validate()?;
    let PlanParts {
        clock,
        engine,
        reader,
        store,
    } = parts;
    let planned = dry_run(&options, clock, engine, &reader, store).await;
    reader.close().await;
    planned
}

async fn dry_run(
    options: &RuntimeOptions,
    clock: aedile_clock::SharedClock,
    engine: Arc<Engine>,
    reader: &Reader,
    store: Store,
) -> Result<Plan, RuntimeError> {
    let run = DryRun::begin(options, clock.clone(), reader, store.clone()).await?;
    let origin = Origin {
        state: &run.guards.backend.latest().state,
        store,
        bound: LOADING,
    };
    let (_, mut set) = Sources::open(options, engine, clock, origin).await?;
    // What a pass here would leave out.
    let stops = stopfile::look(options.stop_file.as_deref());
    set.plugins.retain(|name, _| !stops.stops(name));
    let went = drain(&run.guards, &set, &run.identity, control, async |_, _| {})
        .await
        .map_err(|_| RuntimeError::LeaseLost)?;
    let mut plan = run.end(&went);
    plan.problems = set.problems;
    Ok(plan)
}

/// Nothing ends a dry run's ticks but their own limits.
pub(super) fn control() -> Control {
    Control {
        authority: Arc::new(|| true),
        stop: CancellationToken::new(),
    }
}

/// A dry run on the state of this moment.
pub(super) struct DryRun {
    pub(super) guards: Arc<Guards<Dry>>,
    pub(super) identity: Identity,
    index: u64,
    now: i64,
    /// The place in the queue that was next when it began.
    until: u64,
}

impl DryRun {
    pub(super) async fn begin(
        options: &RuntimeOptions,
        clock: aedile_clock::SharedClock,
        reader: &Reader,
        store: Store,
    ) -> Result<Self, RuntimeError> {
        let view = reader.view().await.map_err(RuntimeError::Log)?;
        let now = reader.database_now().await.map_err(RuntimeError::Log)?;
        let index = view.index;
        let until = view.state.next_mark_seq();
        let guards = Arc::new(
            Guards::new(
                Dry::new(view, now, store, clock),
                Arc::new(Aside::new(Tries::Once)),
                StoreTrust::new(options.confirm_empty_store),
                Arc::new(Entropy::new(options.seed)),
            )
            .with_orphans(options.orphans),
        );
        let identity = Identity {
            node: options.node.clone(),
            epoch: 0,
        };
        Ok(Self {
            guards,
            identity,
            index,
            now: now.0,
            until,
        })
    }

    pub(super) fn end(self, went: &[Went]) -> Plan {
        let guards = &self.guards;
        let end = guards.backend.latest();
        let left = left_over(guards, &end.state, self.until);
        let noted = guards.backend.take_noted();
        let mut plan = Plan {
            index: self.index,
            now: self.now,
            deletes: noted.deletes,
            cleans: noted.cleans,
            expires: noted.expires,
            commands: noted.commands,
            parked: left.parked,
            conflicts: left.conflicts,
            refused: left.refused,
            store_suspect: guards.doubt(&end.state),
            orphans: orphans(guards),
            plugins: went
                .iter()
                .map(|went| PlannedTicks {
                    plugin: went.loaded.name().to_owned(),
                    version: went.loaded.manifest().version.clone(),
                    digest: went.loaded.plugin.digest().to_owned(),
                    ticks: went.ticks,
                    failure: went.failure.clone(),
                })
                .collect(),
            problems: Vec::new(),
            totals: PlanTotals::default(),
        };
        plan.refused.extend(left.failed);
        plan.totals = totals(&plan);
        plan
    }
}

/// The orphans that the last sweep left, and why.
fn orphans(guards: &Guards<Dry>) -> Option<PlannedOrphans> {
    let found = guards.orphans.found()?;
    let grace = guards.orphans.grace();
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let reason = |counted: Duration| match &found.held {
        Some(_) => "held".to_owned(),
        None if counted < grace => format!(
            "an orphan for {}, of {}",
            humantime::format_duration(Duration::from_secs(counted.as_secs())),
            humantime::format_duration(grace)
        ),
        None => "it was not asked for".to_owned(),
    };
    let orphans = guards
        .orphans
        .left()
        .into_iter()
        .map(|orphan| PlannedOrphan {
            id: orphan.id.0,
            key: object_key(orphan.id.0),
            bytes: orphan.size,
            first_seen: orphan.age.first_seen,
            age_ms: millis(orphan.age.counted),
            reason: reason(orphan.age.counted),
        })
        .collect();
    Some(PlannedOrphans {
        listed: found.listed,
        objects: found.objects,
        left: found.candidates,
        bytes: found.bytes,
        grace_ms: millis(grace),
        held: found.held.clone(),
        orphans,
    })
}

fn totals(plan: &Plan) -> PlanTotals {
    let count = |length: usize| length as u64;
    PlanTotals {
        deletes: count(plan.deletes.len()),
        bytes: plan.deletes.iter().filter_map(|delete| delete.bytes).sum(),
        cleans: count(plan.cleans.len()),
        expires: count(plan.expires.len()),
        commands: count(plan.commands.len()),
        parked: count(plan.parked.len()),
        conflicts: count(plan.conflicts.len()),
        refused: count(plan.refused.len()),
    }
}
