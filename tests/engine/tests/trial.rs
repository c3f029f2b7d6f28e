//! Trials of plugins that bear to be stopped anywhere, and of some that do not.

use std::sync::Arc;

use aedile_clock::{SharedClock, SystemClock};
use aedile_engine::{Engine, EngineOptions};
use aedile_log::View;
use aedile_runtime::trial::{Ground, Stop, Subject, Trial, measure, trial};
use aedile_runtime::{OrphanOptions, PluginSettings};
use aedile_storage::{Store, StoreOptions};
use aedile_tests_engine::{guest, module};
use tempfile::TempDir;

/// Reads a key and writes keys, all below the guest's own prefix. The items of
/// `put-kv` lie from 256 on, 16 bytes each; the answer of a read is at 2048.
const KEYS: &str = r#";; grants: state, commands.put-kv, commands.put-kv-if-absent
(import "aedile:maintenance/state@0.1.0" "kv-get" (func $get (param i32 i32 i32)))
(import "aedile:maintenance/commands@0.1.0" "put-kv" (func $put (param i32 i32 i32)))
(import "aedile:maintenance/commands@0.1.0" "put-kv-if-absent" (func $claim (param i32 i32 i32)))
(memory (export "memory") 4)
(data (i32.const 0) "aedile/kv/guest/a")
(data (i32.const 32) "aedile/kv/guest/b")
(data (i32.const 128) "1")
(data (i32.const 256) "\00\00\00\00\11\00\00\00\80\00\00\00\01\00\00\00")
(data (i32.const 272) "\20\00\00\00\11\00\00\00\80\00\00\00\01\00\00\00")
(func $has_a (result i32)
    (call $get (i32.const 0) (i32.const 17) (i32.const 2048)) (i32.load8_u (i32.const 2048)))
(func $has_b (result i32)
    (call $get (i32.const 32) (i32.const 17) (i32.const 2048)) (i32.load8_u (i32.const 2048)))
(func $put_a (call $put (i32.const 256) (i32.const 1) (i32.const 3072)))
(func $put_b (call $put (i32.const 272) (i32.const 1) (i32.const 3072)))
(func $put_both (call $put (i32.const 256) (i32.const 2) (i32.const 3072)))
;; Whether the key was there already.
(func $claim_a (result i32)
    (call $claim (i32.const 256) (i32.const 1) (i32.const 3072))
    (i32.eq (i32.const 1) (i32.load8_u (i32.load (i32.const 3076)))))
"#;

struct Place {
    ground: Ground,
    _directory: TempDir,
}

fn place() -> Place {
    let directory = tempfile::tempdir().expect("a directory");
    let clock: SharedClock = Arc::new(SystemClock);
    let uri = format!("file://{}", directory.path().display());
    let store = Store::open(
        &uri.parse().expect("a URI"),
        StoreOptions::default(),
        clock.clone(),
    );
    let engine = Engine::new(EngineOptions::default(), clock.clone());
    Place {
        ground: Ground {
            now: clock.unix(),
            engine: Arc::new(engine.expect("an engine")),
            view: View::default(),
            store: store.expect("a store"),
            confirm_empty_store: false,
            orphans: OrphanOptions::default(),
            clock,
        },
        _directory: directory,
    }
}

fn subject(bytes: Vec<u8>) -> Subject {
    Subject {
        bytes: bytes.into(),
        settings: PluginSettings::default(),
        grant_wanted: true,
    }
}

/// A guest with these keys and this tick.
fn keyed(tick: &str) -> Subject {
    let text = format!(
        "{KEYS}(func (export \"aedile:maintenance/maintenance@0.1.0#tick\") (result i32)\n\
         {tick} (i32.const 1024))"
    );
    subject(module("guest", &text))
}

async fn tried(tick: &str) -> Trial {
    let place = place();
    trial(&place.ground, &keyed(tick), 1000)
        .await
        .expect("it loads")
}

#[tokio::test]
async fn a_plugin_that_bears_everything_passes() {
    // What is done is looked up, and the mark comes last.
    let trial = tried("(if (i32.eqz (call $has_b)) (then (call $put_a) (call $put_b)))").await;
    assert!(trial.passed(), "{trial:#?}");
    let calls: Vec<_> = trial
        .sent
        .iter()
        .map(|sent| sent.function.as_str())
        .collect();
    assert_eq!(calls, ["commands.put-kv", "commands.put-kv"]);
    // Each tick doubled, and each call before, after and with its answer lost.
    assert_eq!((trial.attacks, trial.tried), (7, 7));
    assert_eq!(trial.ticks.len(), 2, "the second changes nothing");
    assert_eq!(trial.commands.len(), 2);
}

#[tokio::test]
async fn a_mark_before_its_work_is_found() {
    let trial = tried("(if (i32.eqz (call $has_a)) (then (call $put_a) (call $put_b)))").await;
    assert!(!trial.passed() && trial.failure.is_none(), "{trial:#?}");
    let found: Vec<_> = trial
        .divergences
        .iter()
        .map(|found| (found.at, found.stop))
        .collect();
    // The second call after the first had its effect, and not before that.
    assert_eq!(
        found,
        [(Some(1), Some(Stop::After)), (Some(2), Some(Stop::Before))]
    );
    for found in &trial.divergences {
        assert_eq!(
            found.difference,
            "key \"aedile/kv/guest/b\" is missing instead of \"1\""
        );
        assert_eq!(found.call.as_ref().map(|call| call.items), Some(1));
    }
}

#[tokio::test]
async fn a_list_that_is_half_done_is_found() {
    let trial = tried("(if (i32.eqz (call $has_a)) (then (call $put_both)))").await;
    let found: Vec<_> = trial
        .divergences
        .iter()
        .map(|found| (found.at, found.stop))
        .collect();
    assert_eq!(found, [(Some(1), Some(Stop::Half))], "{trial:#?}");
}

#[tokio::test]
async fn a_tick_that_must_not_run_twice_is_found() {
    let trial =
        tried("(if (i32.eqz (call $has_a)) (then (if (call $claim_a) (then (call $put_b)))))")
            .await;
    let [found] = &trial.divergences[..] else {
        panic!("{trial:#?}");
    };
    assert!(found.attack.starts_with("tick 1 run twice"), "{found:?}");
    assert!(found.difference.contains("guest/b"), "{found:?}");
}

#[tokio::test]
async fn a_plugin_that_never_rests_is_found() {
    // One more in every tick.
    let trial = tried(
        "(i32.store8 (i32.const 128) (i32.add (i32.const 1) (if (result i32) (call $has_a)
            (then (i32.load8_u (i32.load (i32.const 2052)))) (else (i32.const 64)))))
         (call $put_a)",
    )
    .await;
    let failure = trial.failure.expect("it never rests");
    assert!(
        failure.contains("does not come to rest") && failure.contains("guest/a"),
        "{failure}"
    );
}

#[tokio::test]
async fn a_plugin_that_goes_round_in_a_circle_rests_there() {
    // A cursor that comes back to its beginning.
    let trial = tried(
        "(i32.store8 (i32.const 128) (i32.xor (i32.const 1) (if (result i32) (call $has_a)
            (then (i32.load8_u (i32.load (i32.const 2052)))) (else (i32.const 64)))))
         (call $put_a)",
    )
    .await;
    assert!(trial.passed(), "{trial:#?}");
}

#[tokio::test]
async fn attacks_are_spread_where_there_are_too_many() {
    let place = place();
    let subject = keyed("(if (i32.eqz (call $has_b)) (then (call $put_a) (call $put_b)))");
    let trial_of = async |most| {
        trial(&place.ground, &subject, most)
            .await
            .expect("it loads")
    };
    assert_eq!(trial_of(0).await.tried, 0);
    let few = trial_of(3).await;
    assert_eq!((few.tried, few.attacks), (3, 7));
}

#[tokio::test]
async fn what_fails_on_its_own_is_told_and_not_attacked() {
    let place = place();
    for (name, words) in [
        ("trap_in_tick", "trap"),
        ("infinite_loop", "limit `cpu`"),
        ("reject", "reject"),
    ] {
        let mut subject = subject(guest(name));
        subject.settings.limits.cpu = std::time::Duration::from_millis(50);
        let trial = trial(&place.ground, &subject, 100).await.expect("it loads");
        let failure = trial.failure.expect(name);
        assert!(failure.contains(words), "{name}: {failure}");
        assert_eq!(trial.tried, 0);
    }
    let mut ungranted = keyed("(call $put_a)");
    ungranted.grant_wanted = false;
    let error = trial(&place.ground, &ungranted, 0)
        .await
        .expect_err("no grant");
    assert!(error.to_string().contains("commands.put-kv"), "{error}");
}

#[tokio::test]
async fn a_tick_is_measured_beside_its_limits() {
    let place = place();
    let subject = keyed("(if (i32.eqz (call $has_a)) (then (call $put_both)))");
    let measured = async || measure(&place.ground, &subject, 5).await.expect("it loads");
    let (one, two) = (measured().await, measured().await);
    assert!(!one.failed(), "{one:?}");
    assert!(one.fuel > 0);
    assert_eq!(one.fuel, two.fuel, "instructions are the same every time");
    assert_eq!(one.boundary, two.boundary);
    assert_eq!(one.boundary.calls, 2);
    assert_eq!(one.boundary.largest_call, "commands.put-kv");
    let share = |name: &str| one.shares.iter().find(|share| share.what == name);
    for name in [
        "cpu",
        "wall",
        "memory",
        "host-call-bytes",
        "commands",
        "module",
    ] {
        let share = share(name).expect(name);
        assert!(
            share.percent().is_some_and(|percent| percent > 0.0),
            "{share:?}"
        );
    }
    assert_eq!(share("memory").map(|share| share.used), Some(262_144.0));
    assert_eq!(share("commands").map(|share| share.used), Some(2.0));
}

/// spin#3132: what production allows could not be had locally. The same module
/// with the same limits ends in the same way as in a running node, where
/// `tests/beside.rs` runs these guests.
#[tokio::test]
async fn spin_3132_production_limits_hold_in_a_trial() {
    let place = place();
    for (name, words) in [
        ("memory_bomb", "limit: limit `memory`"),
        ("infinite_loop", "limit: limit `cpu`"),
        ("command_loop", "limit: limit `commands`"),
        ("storage_loop", "limit: limit `storage-operations`"),
        ("huge_string", "limit: limit `host-call-bytes`"),
        ("trap_in_tick", "trap: "),
    ] {
        let mut subject = subject(guest(name));
        subject.settings.limits.memory = 16 << 20;
        subject.settings.limits.cpu = std::time::Duration::from_millis(300);
        subject.settings.limits.commands = 100;
        subject.settings.limits.storage_operations = 100;
        let trial = trial(&place.ground, &subject, 0).await.expect("it loads");
        let failure = trial.failure.expect(name);
        assert!(failure.starts_with(words), "{name}: {failure}");
    }
}

/// fluvio#2326: a panic's text was lost on its way to the author.
#[tokio::test]
async fn fluvio_2326_a_panics_text_reaches_the_author() {
    let place = place();
    let trial = trial(&place.ground, &subject(guest("last_words")), 0).await;
    let failure = trial.expect("it loads").failure.expect("it traps");
    assert!(failure.contains("its last error: "), "{failure}");
}

/// golem#2351: killed between plan and commit, work was lost or done twice. Two
/// hundred stops, before, after and in the middle of each call.
#[tokio::test]
async fn golem_2351_stopped_anywhere_it_comes_to_the_same_end() {
    let trial = tried(
        "(if (call $has_b) (then (return (i32.const 1024))))
         (i32.store8 (i32.const 16) (i32.const 32))
         (loop $next
            (call $put_a)
            (i32.store8 (i32.const 16) (i32.add (i32.const 1) (i32.load8_u (i32.const 16))))
            (br_if $next (i32.lt_u (i32.load8_u (i32.const 16)) (i32.const 98))))
         (call $put_b)",
    )
    .await;
    assert!(trial.passed(), "{trial:#?}");
    assert_eq!(trial.sent.len(), 67);
    assert!(trial.tried > 200, "{}", trial.tried);
}
