//! The sweep over a real directory and a scratch copy of the state, in which a
//! test lets commands come in between.

use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock, UnixMillis};
use aedile_log::View;
use aedile_state::{Command, CommitRequest, CommitStreamObject, NOOP, ObjectId, Operation, State};
use aedile_storage::{DeleteOutcome, StorageUri, Store, StoreOptions, object_key};
use tempfile::TempDir;

use super::orphan_notes::noted;
use super::orphan_sweep::Bounds;
use super::testing::{EPOCH, NODE, NOW, World};
use super::{Aside, Deletion, Guards, OrphanOptions, Portion, Refusal, StoreTrust, Tries};
use crate::backend::{Backend as _, Dry, Trouble};
use crate::entropy::Entropy;
use crate::tests::cluster::composite;

const DAY: Duration = Duration::from_secs(86_400);
const HOUR_MS: i64 = 3_600_000;

/// A catalog and a directory.
struct Site {
    dir: TempDir,
    world: World,
    live: Vec<ObjectId>,
}

impl Site {
    /// With three live objects, whose bytes are there.
    fn new() -> Self {
        let mut world = World::new();
        let live = world.objects(3);
        let site = Self {
            dir: TempDir::new().expect("a directory"),
            world,
            live,
        };
        site.put_all(&site.live);
        site
    }

    fn put(&self, key: &str, bytes: &[u8]) {
        let path = self.dir.path().join(key);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, bytes).expect("written");
    }

    fn put_all(&self, ids: &[ObjectId]) {
        for id in ids {
            self.put(&object_key(id.0), b"data");
        }
    }

    /// Uploads that were never committed and whose reservations are gone.
    fn abandoned(&mut self, count: u32) -> Vec<ObjectId> {
        let ids = self.world.reserve(count, 0);
        self.world
            .apply(Command::ExpirePreparedObjects { now_ms: NOW });
        self.put_all(&ids);
        ids
    }

    fn guards(&self, options: OrphanOptions) -> Guards<Dry> {
        self.guards_of(self.world.state.clone(), NOW, options, false)
    }

    /// A holder on this state at this time.
    fn guards_of(
        &self,
        state: State,
        now: i64,
        options: OrphanOptions,
        confirmed: bool,
    ) -> Guards<Dry> {
        let clock: SharedClock = Arc::new(SystemClock);
        let uri: StorageUri = format!("-2@file://{}", self.dir.path().display())
            .parse()
            .expect("a URI");
        let store = Store::open(&uri, StoreOptions::default(), clock.clone()).expect("a store");
        Guards::new(
            Dry::new(View { index: 1, state }, UnixMillis(now), store, clock),
            Arc::new(Aside::new(Tries::Once)),
            StoreTrust::new(confirmed),
            Arc::new(Entropy::new(Some(1))),
        )
        .with_orphans(options)
    }
}

fn at_once() -> OrphanOptions {
    OrphanOptions {
        grace: Duration::ZERO,
        ..OrphanOptions::default()
    }
}

/// Sweep until it is complete.
async fn sweep(guards: &Guards<Dry>) -> Portion {
    for _ in 0..100 {
        let portion = guards.find_orphans("orphans").await.expect("a portion");
        if portion.complete {
            return portion;
        }
        assert!(portion.give.is_empty(), "given before it is complete");
    }
    panic!("the sweep never ends");
}

async fn refused(guards: &Guards<Dry>) -> String {
    match guards.find_orphans("orphans").await {
        Err(Trouble::Unavailable(text)) => text,
        other => panic!("a refusal, not {other:?}"),
    }
}

/// Delete; what became of each.
async fn delete(guards: &Guards<Dry>, ids: &[ObjectId]) -> Vec<Deletion> {
    guards
        .delete_orphans("orphans", ids)
        .await
        .expect("answers")
}

fn conflict(deletion: &Deletion) -> &str {
    match deletion {
        Deletion::Refused(Refusal::Conflict(text)) => text,
        other => panic!("a conflict, not {other:?}"),
    }
}

fn commit(state: &State, world: &World, id: ObjectId) -> Command {
    let start = state.stream(world.stream).expect("the stream").end_offset;
    Command::CommitStreamSetObject {
        node: NODE,
        node_epoch: EPOCH,
        now_ms: NOW,
        request: CommitRequest {
            object: NOOP,
            object_size: 0,
            attributes: 0,
            ranges: Vec::new(),
            stream_objects: vec![CommitStreamObject {
                object: id,
                object_size: 4,
                stream: world.stream,
                start_offset: start,
                end_offset: start + 10,
                attributes: 0,
            }],
            compacted: Vec::new(),
        },
    }
}

/// Let commands come in beside the sweep.
async fn meanwhile(guards: &Guards<Dry>, commands: Vec<Command>) {
    guards
        .backend
        .propose("node", commands)
        .await
        .expect("proposed");
}

// infino#549, slatedb#604, slatedb#1044: deleted by a view that was not the
// newest, or while its commit was under way.
#[tokio::test]
async fn infino_549_a_commit_after_the_sweep_saves_its_object() {
    let mut site = Site::new();
    let ids = site.abandoned(3);
    let guards = site.guards(at_once());
    assert_eq!(sweep(&guards).await.give, [ids[2], ids[1], ids[0]]);
    let late = commit(&guards.backend.latest().state, &site.world, ids[1]);
    meanwhile(&guards, vec![late]).await;
    let answers = delete(&guards, &ids).await;
    assert_eq!(answers[0], Deletion::Outcome(DeleteOutcome::Deleted));
    assert!(conflict(&answers[1]).contains("live"));
    assert_eq!(answers[2], Deletion::Outcome(DeleteOutcome::Deleted));
    let planned = guards.backend.take_noted().deletes;
    let planned: Vec<u64> = planned.iter().map(|delete| delete.id).collect();
    assert_eq!(planned, [ids[0].0, ids[2].0]);
}

#[tokio::test]
async fn what_is_committed_or_uploaded_while_keys_are_listed_is_no_orphan() {
    let mut site = Site::new();
    let ids = site.abandoned(12);
    let mut guards = site.guards(at_once());
    guards.orphans.bounds = Bounds {
        page: 2,
        pages: 1,
        ..Bounds::default()
    };
    // One commits late; another is reserved and uploaded and its reservation is
    // lost, all behind the view that the sweep began with.
    let new = guards.backend.latest().state.next_object_id();
    site.put_all(&[new]);
    let first = guards.find_orphans("orphans").await.expect("a portion");
    assert!(!first.complete && first.advanced);
    let late = commit(&guards.backend.latest().state, &site.world, ids[3]);
    let prepare = Command::PrepareObject {
        node: NODE,
        node_epoch: EPOCH,
        count: 1,
        ttl_ms: 0,
        now_ms: NOW,
    };
    let expire = Command::ExpirePreparedObjects { now_ms: NOW };
    meanwhile(&guards, vec![late, prepare, expire]).await;
    let found = sweep(&guards).await;
    let expected: Vec<ObjectId> = ids
        .iter()
        .copied()
        .filter(|id| *id != ids[3])
        .rev()
        .collect();
    assert_eq!(found.give, expected);
    assert_eq!((found.found.listed, found.found.candidates), (16, 11));
}

#[tokio::test]
async fn only_the_very_keys_of_data_objects_are_looked_at() {
    let mut site = Site::new();
    let id = site.abandoned(1)[0];
    let wal = "C4CA4238A0B923820DCC509A6F75849B/_kafka_picomq/1/1796191747112/wal/0-1";
    let others = [
        wal,
        "52674dec/DEFAULT/node-1",
        "__pico/readiness_check/4711",
        "aedile/modules/00ff",
        &aedile_storage::ModuleDigest::of(b"a module").key(),
        "10000000/DEFAULT/01",
        "20000000/DEFAULT/1",
        "10000000/DEFAULT/1#0",
        "backup/10000000/DEFAULT/1",
        "lost+found/x",
    ];
    for key in others {
        site.put(key, b"not ours");
    }
    let guards = site.guards(at_once());
    let portion = sweep(&guards).await;
    assert_eq!(portion.give, [id]);
    assert_eq!(
        (portion.found.listed, portion.found.objects),
        (4 + others.len() as u64, 4)
    );
}

#[tokio::test]
async fn parts_stay_for_as_long_as_a_composite_links_them() {
    let mut site = Site::new();
    let (id, parts) = site.world.composite();
    site.put_all(&parts);
    site.put(&object_key(id.0), &composite(&parts));
    site.world.clean(&parts);
    let none: [ObjectId; 0] = [];
    assert_eq!(sweep(&site.guards(at_once())).await.give, none);
    // Marked, it still protects them: what the mark says does not matter.
    site.world.compact(&[id], &[Operation::Delete]);
    assert_eq!(sweep(&site.guards(at_once())).await.give, none);
    // Its mark gone, it is an orphan itself, and so are they.
    site.world.clean(&[id]);
    let mut given = sweep(&site.guards(at_once())).await.give;
    given.sort_unstable();
    let mut expected = parts.clone();
    expected.push(id);
    expected.sort_unstable();
    assert_eq!(given, expected);
}

#[tokio::test]
async fn a_composite_that_ends_while_keys_are_listed_still_protects_its_parts() {
    let mut site = Site::new();
    let (id, parts) = site.world.composite();
    site.put_all(&parts);
    site.put(&object_key(id.0), &composite(&parts));
    site.world.clean(&parts);
    let mut guards = site.guards(at_once());
    guards.orphans.bounds = Bounds {
        page: 1,
        pages: 1,
        ..Bounds::default()
    };
    let first = guards.find_orphans("orphans").await.expect("a portion");
    assert!(!first.complete);
    let mut after = site.world.clone();
    after.compact(&[id], &[Operation::Delete]);
    after.clean(&[id]);
    let commands = after.commands[site.world.commands.len()..].to_vec();
    meanwhile(&guards, commands).await;
    assert_eq!(sweep(&guards).await.give, []);
}

#[tokio::test]
async fn a_composite_that_cannot_be_read_stops_the_sweep_live_or_marked() {
    let mut site = Site::new();
    site.abandoned(1);
    let (id, parts) = site.world.composite();
    site.put_all(&parts);
    let whole = composite(&parts);
    let mut torn = whole.clone();
    torn.remove(20);
    site.put(&object_key(id.0), &torn);
    let text = refused(&site.guards(at_once())).await;
    assert!(text.contains(&format!("composite {id}")), "{text}");
    site.world.compact(&[id], &[Operation::Delete]);
    let text = refused(&site.guards(at_once())).await;
    assert!(text.contains(&format!("marked object {id}")), "{text}");
    site.put(&object_key(id.0), &whole);
    assert_eq!(sweep(&site.guards(at_once())).await.give.len(), 1);
}

#[tokio::test]
async fn a_store_that_lacks_a_live_object_or_cannot_be_known_stops_the_sweep() {
    let mut site = Site::new();
    site.abandoned(1);
    let gone = object_key(site.live[1].0);
    std::fs::remove_file(site.dir.path().join(&gone)).expect("it was there");
    let text = refused(&site.guards(at_once())).await;
    assert!(text.contains(&gone), "{text}");
    // Without a live object only the operator's word counts.
    let live = site.live.clone();
    site.world.compact(&live, &[Operation::Delete; 3]);
    site.world.clean(&live);
    let text = refused(&site.guards(at_once())).await;
    assert!(text.contains("--confirm-empty-store"), "{text}");
    let state = site.world.state.clone();
    let confirmed = site.guards_of(state, NOW, at_once(), true);
    assert_eq!(sweep(&confirmed).await.give.len(), 3, "two were left over");
}

// An incomplete listing takes nothing; and ravel#1734, ravel#1880: it does not
// pass for one that found nothing.
#[tokio::test]
async fn ravel_1880_a_listing_that_fails_takes_nothing_and_changes_no_figure() {
    let mut site = Site::new();
    site.abandoned(8);
    let mut guards = site.guards(OrphanOptions::default());
    guards.orphans.bounds = Bounds {
        page: 2,
        pages: 1,
        ..Bounds::default()
    };
    let portion = sweep(&guards).await;
    assert_eq!((portion.found.candidates, portion.give.len()), (8, 0));
    let before = guards.orphans.found();
    assert!(before.is_some());
    let first = guards
        .find_orphans("orphans")
        .await
        .expect("it begins anew");
    assert!(!first.complete);
    let away = site.dir.path().with_extension("away");
    std::fs::rename(site.dir.path(), &away).expect("moved");
    let text = refused(&guards).await;
    assert!(text.contains("cannot be listed"), "{text}");
    assert_eq!(guards.orphans.found(), before);
    std::fs::rename(&away, site.dir.path()).expect("moved back");
}

#[tokio::test]
async fn nothing_is_deleted_that_no_complete_sweep_of_the_term_gave() {
    let mut site = Site::new();
    let ids = site.abandoned(2);
    let guards = site.guards(at_once());
    assert!(conflict(&delete(&guards, &ids[..1]).await[0]).contains("no sweep"));
    sweep(&guards).await;
    let asked = [site.live[0], ids[0], ids[0], ObjectId(9999)];
    let answers = delete(&guards, &asked).await;
    assert!(conflict(&answers[0]).contains("did not find it"));
    assert_eq!(answers[1], Deletion::Outcome(DeleteOutcome::Deleted));
    assert_eq!(answers[2], answers[1]);
    assert!(conflict(&answers[3]).contains("did not find it"));
    // Gone is gone: it is not asked for twice.
    assert!(conflict(&delete(&guards, &ids[..1]).await[0]).contains("did not find it"));
}

// thanos#1577, iceberg#4194, slatedb#204: the age counts from when it became an
// orphan, whatever its bytes' age is.
#[tokio::test]
async fn slatedb_204_an_orphan_waits_for_the_grace_and_a_new_holder_goes_on_counting() {
    let mut site = Site::new();
    let ids = site.abandoned(2);
    let options = OrphanOptions::default();
    let mut state = site.world.state.clone();
    let mut given = 0;
    for hour in 0..=24 {
        // Each sweep is that of a new holder.
        let guards = site.guards_of(state.clone(), NOW + hour * HOUR_MS, options, false);
        let portion = sweep(&guards).await;
        assert_eq!(portion.found.candidates, 2, "hour {hour}");
        given = portion.give.len();
        assert_eq!(given, if hour < 24 { 0 } else { 2 }, "hour {hour}");
        if given == 0 {
            let left = guards.orphans.left();
            assert_eq!(left[0].age.first_seen, NOW);
            assert_eq!(left[0].age.counted.as_secs(), hour as u64 * 3600);
        } else {
            let answers = delete(&guards, &ids).await;
            let gone = Deletion::Outcome(DeleteOutcome::Deleted);
            assert!(answers.iter().all(|answer| *answer == gone));
            // The call that finds no more takes them out of the notes.
            assert!(!noted(&guards.backend.latest().state).is_empty());
            sweep(&guards).await;
        }
        state = guards.backend.latest().state.clone();
    }
    assert_eq!(given, 2);
    assert!(noted(&state).is_empty());
    assert_eq!(options.grace, DAY);
}

// juicefs#2989, juicefs#5451: bytes went, and the crash left the record of them.
#[tokio::test]
async fn juicefs_2989_a_crash_after_the_bytes_leaves_no_note_for_ever() {
    let mut site = Site::new();
    let ids = site.abandoned(2);
    let guards = site.guards(OrphanOptions::default());
    sweep(&guards).await;
    let state = guards.backend.latest().state.clone();
    assert!(!noted(&state).is_empty());
    for id in ids {
        std::fs::remove_file(site.dir.path().join(object_key(id.0))).expect("it was there");
    }
    let successor = site.guards_of(state, NOW, OrphanOptions::default(), false);
    sweep(&successor).await;
    assert!(noted(&successor.backend.latest().state).is_empty());
}

// ravel#528, ravel#1777: a catalog that has lost records condemns everything.
#[tokio::test]
async fn ravel_528_too_many_at_once_are_held_until_the_operator_raises_the_breaker() {
    let mut site = Site::new();
    site.abandoned(20);
    let tight = OrphanOptions {
        breaker_count: 19,
        ..at_once()
    };
    let guards = site.guards(tight);
    let portion = sweep(&guards).await;
    let held = portion.found.held.expect("held");
    assert!(held.contains("20 of the 23"), "{held}");
    assert_eq!((portion.give.len(), portion.found.ripe), (0, 20));
    let raised = OrphanOptions {
        breaker_count: 20,
        ..tight
    };
    assert_eq!(sweep(&site.guards(raised)).await.give.len(), 20);
    let share = OrphanOptions {
        breaker_percent: 87,
        ..tight
    };
    assert_eq!(sweep(&site.guards(share)).await.give.len(), 20);
}

// iceberg#3703, iceberg#4152, paimon#9409: the list of candidates outgrew memory.
#[tokio::test]
async fn iceberg_3703_a_sweep_keeps_a_bounded_number_and_the_next_takes_the_rest() {
    let mut site = Site::new();
    let ids = site.abandoned(25);
    let mut guards = site.guards(at_once());
    guards.orphans.bounds.kept = 10;
    let mut gone = Vec::new();
    for expected in [(25, 10), (15, 10), (5, 5)] {
        let portion = sweep(&guards).await;
        assert_eq!(
            (portion.found.candidates, portion.give.len()),
            (expected.0, expected.1)
        );
        delete(&guards, &portion.give).await;
        gone.extend(portion.give);
        assert_eq!(sweep(&guards).await.give, [], "that sweep has no more");
    }
    gone.sort_unstable();
    assert_eq!(gone, ids);
}

#[tokio::test]
async fn a_sweep_waits_until_the_destroyed_queue_is_short() {
    let mut site = Site::new();
    site.abandoned(1);
    for _ in 0..21 {
        site.world.marked(1000, Operation::Delete);
    }
    let text = refused(&site.guards(at_once())).await;
    assert!(text.contains("21000 marks"), "{text}");
}
