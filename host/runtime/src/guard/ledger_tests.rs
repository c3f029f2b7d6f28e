//! Random worlds of composites, marks and crashes against a naive ledger.
//!
//! The guard works on a real directory, driven as the cleaner drives it, and is
//! thrown away wherever a crash falls. After every call no byte that the live
//! catalog can reach may be missing; in the end nothing that the marks let go
//! may be left.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock, UnixMillis};
use aedile_log::{Answer, View};
use aedile_state::{Command, ObjectId, Operation, State};
use aedile_storage::{DeleteOutcome, Store, StoreOptions, object_key};
use async_trait::async_trait;
use proptest::prelude::*;
use tempfile::TempDir;

use super::guards::{Deletion, lock};
use super::testing::{World, composite_bytes};
use super::{Aside, Guards, Orphan, StoreTrust, Tries};
use crate::backend::{Backend, Doomed, Trouble};
use crate::entropy::Entropy;

/// A log in memory over a real directory, with a store that stops at a crash.
#[derive(Debug)]
struct Bench {
    dir: TempDir,
    store: Store,
    clock: SharedClock,
    state: Mutex<State>,
    /// Objects that may still be deleted before the process dies.
    fuel: AtomicI64,
    /// Objects that the store refuses to delete.
    denied: Mutex<HashSet<ObjectId>>,
    /// Every delete that was sent, in order.
    sent: Mutex<Vec<ObjectId>>,
}

impl Bench {
    fn new(state: State) -> Arc<Self> {
        let dir = TempDir::new().expect("a directory");
        let clock: SharedClock = Arc::new(SystemClock);
        let uri = format!("-2@file://{}", dir.path().display());
        let uri = uri.parse().expect("a URI");
        let store = Store::open(&uri, StoreOptions::default(), clock.clone()).expect("a store");
        Arc::new(Self {
            dir,
            store,
            clock,
            state: Mutex::new(state),
            fuel: AtomicI64::new(i64::MAX),
            denied: Mutex::default(),
            sent: Mutex::default(),
        })
    }

    fn path(&self, id: ObjectId) -> PathBuf {
        self.dir.path().join(object_key(id.0))
    }

    fn put(&self, id: ObjectId, bytes: &[u8]) {
        let path = self.path(id);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, bytes).expect("written");
    }

    fn has(&self, id: ObjectId) -> bool {
        self.path(id).exists()
    }

    fn state(&self) -> State {
        lock(&self.state).clone()
    }

    fn guards(self: &Arc<Self>) -> Guards<Arc<Self>> {
        Guards::new(
            self.clone(),
            Arc::new(Aside::new(Tries::Once)),
            StoreTrust::new(true),
            Arc::new(Entropy::new(Some(1))),
        )
    }

    /// What the cleaner does with the first page.
    async fn page(&self, guards: &Guards<Arc<Self>>, chunk: usize) -> Result<usize, Trouble> {
        let (done, _) = self.page_after(guards, None, chunk).await?;
        Ok(done)
    }

    /// What the cleaner does with the whole queue, in pages: it goes on past one
    /// of which nothing may go.
    async fn pass(&self, guards: &Guards<Arc<Self>>, chunk: usize) -> Result<usize, Trouble> {
        let mut done = 0;
        let mut cursor = None;
        loop {
            let (more, last) = self.page_after(guards, cursor, chunk).await?;
            done += more;
            if last.is_none() {
                return Ok(done);
            }
            cursor = last;
        }
    }

    /// One page after a place in the queue: how many marks it took off, and its
    /// last place.
    async fn page_after(
        &self,
        guards: &Guards<Arc<Self>>,
        after: Option<u64>,
        chunk: usize,
    ) -> Result<(usize, Option<u64>), Trouble> {
        let state = self.state();
        let left_out = guards.left_out(&state);
        let marks: Vec<(u64, ObjectId, Operation)> = state
            .marks_after(after)
            .filter(|&(_, id, _)| !left_out(id))
            .take(chunk)
            .collect();
        let last = marks.last().map(|&(seq, _, _)| seq);
        let page: Vec<(ObjectId, Operation)> = marks
            .into_iter()
            .map(|(_, id, operation)| (id, operation))
            .collect();
        let doomed: Vec<ObjectId> = page
            .iter()
            .filter(|(_, operation)| *operation != Operation::KeepData)
            .map(|&(id, _)| id)
            .collect();
        let mut gone: Vec<ObjectId> = page
            .iter()
            .filter(|(_, operation)| *operation == Operation::KeepData)
            .map(|&(id, _)| id)
            .collect();
        for (id, deletion) in doomed.iter().zip(guards.delete("cleaner", &doomed).await?) {
            if let Deletion::Outcome(DeleteOutcome::Deleted | DeleteOutcome::Absent) = deletion {
                gone.push(*id);
            }
        }
        guards.clean("cleaner", &gone).await?;
        Ok((gone.len(), last))
    }
}

#[async_trait]
impl Backend for Arc<Bench> {
    fn authority(&self) -> Option<Duration> {
        (self.fuel.load(Ordering::Relaxed) > 0).then_some(Duration::from_secs(60))
    }

    fn latest(&self) -> Arc<View> {
        Arc::new(View {
            index: 1,
            state: self.state(),
        })
    }

    async fn fresh(&self) -> Result<Arc<View>, Trouble> {
        Ok(self.latest())
    }

    async fn now(&self) -> Result<UnixMillis, Trouble> {
        Ok(self.clock.unix())
    }

    async fn propose(&self, _: &str, commands: Vec<Command>) -> Result<Vec<Answer>, Trouble> {
        let mut state = lock(&self.state);
        Ok(commands
            .iter()
            .map(|command| match state.apply(command) {
                Ok(applied) => Answer::Applied(applied),
                Err(rejection) => Answer::Rejected(rejection),
            })
            .collect())
    }

    async fn delete(&self, _: &str, objects: &[Doomed]) -> Vec<(ObjectId, DeleteOutcome)> {
        let mut outcomes = Vec::new();
        for doomed in objects {
            let outcome = if lock(&self.denied).contains(&doomed.id) {
                DeleteOutcome::Denied("locked".to_owned())
            } else if self.fuel.fetch_sub(1, Ordering::Relaxed) <= 0 {
                DeleteOutcome::NotSent
            } else {
                lock(&self.sent).push(doomed.id);
                let gate = || Some(Duration::from_secs(60));
                self.store.delete(&[doomed.id.0], &gate).await.remove(0).1
            };
            outcomes.push((doomed.id, outcome));
        }
        outcomes
    }

    async fn delete_orphans(&self, _: &str, _: &[Orphan]) -> Vec<(ObjectId, DeleteOutcome)> {
        panic!("nobody sweeps here")
    }

    fn store(&self) -> &Store {
        &self.store
    }

    fn clock(&self) -> &SharedClock {
        &self.clock
    }
}

/// What really is: which composite links what, whether it can be read or not.
#[derive(Debug, Default)]
struct Truth {
    links: BTreeMap<ObjectId, Vec<ObjectId>>,
    unreadable: BTreeSet<ObjectId>,
}

impl Truth {
    fn links(&self, id: ObjectId) -> &[ObjectId] {
        self.links.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Everything that the live catalog can reach.
    fn reachable(&self, state: &State) -> BTreeSet<ObjectId> {
        let live: BTreeSet<ObjectId> = state.live_after(None).collect();
        let linked = live.iter().flat_map(|&id| self.links(id)).copied();
        let reserved = state.reservations_after(None).map(|(id, _)| id);
        live.iter().copied().chain(linked).chain(reserved).collect()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Objects(u32),
    Reserve(u32),
    /// A composite of some live objects; whether it can be read.
    Compose(Vec<u16>, bool),
    /// Mark live objects or anything at all, each with an operation.
    Mark(Vec<(u16, u8)>, bool),
    /// Work on so many marks, with so many deletes before a crash.
    Clean(usize, i64),
}

fn step() -> impl Strategy<Value = Step> {
    let marks = prop::collection::vec((any::<u16>(), 0..3u8), 1..4);
    prop_oneof![
        2 => (1..4u32).prop_map(Step::Objects),
        1 => (1..2u32).prop_map(Step::Reserve),
        4 => (prop::collection::vec(any::<u16>(), 1..4), prop::bool::weighted(0.9))
            .prop_map(|(sources, readable)| Step::Compose(sources, readable)),
        4 => (marks, any::<bool>()).prop_map(|(marks, live)| Step::Mark(marks, live)),
        2 => (1..8usize, 0..12i64).prop_map(|(chunk, fuel)| Step::Clean(chunk, fuel)),
    ]
}

fn pick(of: &[ObjectId], n: u16) -> Option<ObjectId> {
    of.get(usize::from(n) % of.len().max(1)).copied()
}

/// A world and its bytes as the steps make them.
struct Run {
    world: World,
    truth: Truth,
    bench: Arc<Bench>,
}

impl Run {
    fn new() -> Self {
        let world = World::new();
        let bench = Bench::new(world.state.clone());
        Self {
            world,
            truth: Truth::default(),
            bench,
        }
    }

    /// Do what a writer does; the log has it at once.
    fn write(&mut self, change: impl FnOnce(&mut World)) {
        self.world.state = self.bench.state();
        change(&mut self.world);
        *lock(&self.bench.state) = self.world.state.clone();
    }

    fn compose(&mut self, picks: &[u16], readable: bool) {
        let live: Vec<ObjectId> = self.bench.state().live_after(None).collect();
        let sources: BTreeSet<ObjectId> = picks.iter().filter_map(|&n| pick(&live, n)).collect();
        let sources: Vec<ObjectId> = sources.into_iter().collect();
        if sources.is_empty() || sources.iter().any(|id| self.truth.unreadable.contains(id)) {
            return;
        }
        let links: Vec<ObjectId> = sources
            .iter()
            .flat_map(|id| match self.truth.links.get(id) {
                Some(parts) => parts.clone(),
                None => vec![*id],
            })
            .collect();
        let mut made = ObjectId(0);
        self.write(|world| made = world.compose(&sources));
        let mut bytes = composite_bytes(&links);
        if !readable {
            bytes[0] = 0;
            self.truth.unreadable.insert(made);
        }
        self.bench.put(made, &bytes);
        self.truth.links.insert(made, links);
    }

    fn mark(&mut self, marks: &[(u16, u8)], only_live: bool) {
        let state = self.bench.state();
        let ids: Vec<ObjectId> = match only_live {
            true => state.live_after(None).collect(),
            false => (0..state.next_object_id().0).map(ObjectId).collect(),
        };
        let marks: BTreeMap<ObjectId, Operation> = marks
            .iter()
            .filter_map(|&(n, code)| Some((pick(&ids, n)?, Operation::from_code(code)?)))
            .collect();
        let (ids, operations): (Vec<_>, Vec<_>) = marks.into_iter().unzip();
        if !ids.is_empty() {
            self.write(|world| world.compact(&ids, &operations));
        }
    }

    async fn clean(&mut self, chunk: usize, fuel: i64) {
        let guards = self.bench.guards();
        self.bench.fuel.store(fuel, Ordering::Relaxed);
        while matches!(self.bench.pass(&guards, chunk).await, Ok(done) if done > 0) {
            self.check_live();
        }
        self.bench.fuel.store(i64::MAX, Ordering::Relaxed);
        self.check_live();
    }

    /// No byte that the live catalog can reach is gone. An object that was dead
    /// once may have gone while it was: nobody reads it through the catalog.
    fn check_live(&self) {
        let state = self.bench.state();
        for id in self.truth.reachable(&state) {
            let uploaded = !state.is_reserved(id);
            assert!(
                !uploaded || self.bench.has(id),
                "object {id} is reachable and gone"
            );
        }
    }

    /// Passes until nothing changes.
    async fn settle(&mut self) {
        let guards = self.bench.guards();
        while self.bench.pass(&guards, 5).await.expect("a pass") > 0 {
            self.check_live();
        }
    }
}

async fn run(steps: Vec<Step>) -> Run {
    let mut run = Run::new();
    for step in steps {
        match step {
            Step::Objects(count) => {
                let mut made = Vec::new();
                run.write(|world| made = world.objects(count));
                for id in made {
                    run.bench.put(id, b"data");
                }
            }
            Step::Reserve(count) => run.write(|world| drop(world.reserve(count, 3_600_000))),
            Step::Compose(picks, readable) => run.compose(&picks, readable),
            Step::Mark(marks, only_live) => run.mark(&marks, only_live),
            Step::Clean(chunk, fuel) => run.clean(chunk, fuel).await,
        }
    }
    run
}

/// What is left is left for a reason.
fn check_quiet(run: &Run, before: &State, there: &BTreeSet<ObjectId>) {
    let state = run.bench.state();
    let reachable = run.truth.reachable(&state);
    let blind: Vec<ObjectId> = run
        .truth
        .unreadable
        .iter()
        .copied()
        .filter(|&id| state.is_live(id))
        .collect();
    // May be a part of a live composite that cannot be read: the coarse rule.
    let held = |id: ObjectId| blind.iter().any(|&composite| id < composite);
    for (_, id, operation) in before.marks_after(None) {
        let stands = state.mark(id).is_some();
        let reason = reachable.contains(&id)
            || held(id)
            || run.truth.links(id).iter().any(|&part| held(part))
            || (operation == Operation::DeepDelete && run.truth.unreadable.contains(&id));
        assert!(
            !stands || reason,
            "the mark of {id} ({operation:?}) stands without a reason"
        );
        if operation == Operation::KeepData || stands {
            continue;
        }
        assert!(
            !run.bench.has(id),
            "the bytes of {id} are left without a mark"
        );
        // What it links is known only as long as its bytes are there.
        if operation != Operation::DeepDelete || !there.contains(&id) {
            continue;
        }
        let waits = |part: &ObjectId| {
            let links = |&(_, other, operation): &(u64, ObjectId, Operation)| {
                operation == Operation::DeepDelete && run.truth.links(other).contains(part)
            };
            state.marks_after(None).any(|mark| links(&mark))
        };
        for part in run.truth.links(id) {
            let stays = reachable.contains(part) || waits(part);
            assert!(
                stays || !run.bench.has(*part),
                "part {part} of {id} is left for nothing"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_live_byte_goes_and_no_dead_one_stays(steps in prop::collection::vec(step(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let mut run = run(steps).await;
            let before = run.bench.state();
            let all = (0..before.next_object_id().0).map(ObjectId);
            let there = all.filter(|&id| run.bench.has(id)).collect();
            run.settle().await;
            check_quiet(&run, &before, &there);
        });
    }
}

/// A composite over three parts, marked DeepDelete.
fn deep(run: &mut Run) -> (ObjectId, Vec<ObjectId>) {
    let mut made = Vec::new();
    run.write(|world| made = world.objects(3));
    for &id in &made {
        run.bench.put(id, b"data");
    }
    let mut composite = ObjectId(0);
    run.write(|world| composite = world.compose(&made));
    run.bench.put(composite, &composite_bytes(&made));
    run.truth.links.insert(composite, made.clone());
    run.write(|world| world.compact(&[composite], &[Operation::DeepDelete]));
    (composite, made)
}

#[tokio::test]
async fn parts_go_before_their_composite_wherever_it_crashes() {
    for fuel in 0..8 {
        let mut run = Run::new();
        let (composite, parts) = deep(&mut run);
        run.clean(10, fuel).await;
        assert!(
            run.bench.has(composite) || parts.iter().all(|&part| !run.bench.has(part)),
            "after {fuel} deletes: the composite went before a part"
        );
        run.settle().await;
        assert!(!run.bench.has(composite) && parts.iter().all(|&part| !run.bench.has(part)));
        assert_eq!(run.bench.state().counts().marks, 0);
        let sent = lock(&run.bench.sent).clone();
        let at = sent
            .iter()
            .position(|&id| id == composite)
            .expect("it was sent");
        for part in parts {
            assert!(
                sent[..at].contains(&part),
                "{part} was sent after its composite"
            );
        }
    }
}

#[tokio::test]
async fn a_shared_part_waits_for_the_last_that_takes_it() {
    let mut run = Run::new();
    let (first, parts) = deep(&mut run);
    let mut second = ObjectId(0);
    run.write(|world| second = world.reserve(1, -1)[0]);
    run.write(|world| {
        drop(world.apply(Command::ExpirePreparedObjects {
            now_ms: super::testing::NOW,
        }));
        world.compact(&[second], &[Operation::DeepDelete]);
    });
    run.bench.put(second, &composite_bytes(&parts[1..]));
    // The second cannot go yet: what it shares with the first waits for it.
    lock(&run.bench.denied).insert(second);
    let guards = run.bench.guards();
    // The three marks of the parts, and the first composite's.
    run.bench.page(&guards, 4).await.expect("a page");
    assert!(!run.bench.has(first) && !run.bench.has(parts[0]));
    assert!(
        run.bench.has(parts[1]) && run.bench.has(parts[2]),
        "a shared part went early"
    );
    lock(&run.bench.denied).clear();
    run.settle().await;
    assert!(!run.bench.has(second) && parts.iter().all(|&part| !run.bench.has(part)));
    assert_eq!(run.bench.state().counts().marks, 0);
}

#[tokio::test]
async fn a_part_that_cannot_go_keeps_its_composite_and_nothing_else() {
    let mut run = Run::new();
    let (stuck, parts) = deep(&mut run);
    let (other, others) = deep(&mut run);
    lock(&run.bench.denied).insert(parts[1]);
    run.settle().await;
    assert!(run.bench.has(stuck) && run.bench.has(parts[1]));
    assert!(!run.bench.has(other) && others.iter().all(|&part| !run.bench.has(part)));
    let marks: Vec<ObjectId> = run
        .bench
        .state()
        .marks_after(None)
        .map(|mark| mark.1)
        .collect();
    assert_eq!(marks, [stuck]);
    // With the lock gone, another holder finishes it.
    lock(&run.bench.denied).clear();
    run.settle().await;
    assert_eq!(run.bench.state().counts().marks, 0);
    assert!(!run.bench.has(stuck) && parts.iter().all(|&part| !run.bench.has(part)));
}

#[tokio::test]
async fn a_composite_that_cannot_be_read_stays_alone() {
    let mut run = Run::new();
    let (bad, parts) = deep(&mut run);
    run.bench.put(bad, &composite_bytes(&parts)[1..]);
    let (itself, _) = deep(&mut run);
    run.bench.put(itself, &composite_bytes(&[itself]));
    let (good, others) = deep(&mut run);
    run.settle().await;
    let marks: Vec<ObjectId> = run
        .bench
        .state()
        .marks_after(None)
        .map(|mark| mark.1)
        .collect();
    assert_eq!(marks, [bad, itself]);
    assert!(run.bench.has(bad) && parts.iter().all(|&part| run.bench.has(part)));
    assert!(!run.bench.has(good) && others.iter().all(|&part| !run.bench.has(part)));
    // Mended, it goes with its parts.
    run.bench.put(bad, &composite_bytes(&parts));
    run.settle().await;
    assert!(!run.bench.has(bad) && parts.iter().all(|&part| !run.bench.has(part)));
}
