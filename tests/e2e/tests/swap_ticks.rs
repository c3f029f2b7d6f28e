//! What the ticks of a deployed plugin lead to: taken back, promoted, asked for,
//! stopped.

use aedile_runtime::control::{Action, ModuleRef};
use aedile_runtime::{PluginState, WantedState};
use aedile_tests_contract::databases::Kind;
use aedile_tests_e2e::operator::{Module, Operator};
use aedile_tests_e2e::site::{BOUND, Site, drained};
use aedile_tests_e2e::three::{NAMES, Three, key, node};
use aedile_tests_e2e::wait::until;
use aedile_tests_e2e::{cluster, outside};

async fn a_version_that_fails_its_first_ticks_is_taken_back(kind: Kind) {
    let three = Three::start(kind).await;
    let good = Module::noter("noter", "0.1.0", "good", "1");
    three.operator.deploy(&good, |_| {}).await;
    three
        .operator
        .key("aedile/plugin-good/noter/0000000001", true)
        .await;
    let bad = Module::trapping("noter", "0.2.0");
    let number = three.operator.deploy(&bad, |_| {}).await;
    let back = three
        .operator
        .all(&NAMES, "noter", "it was taken back", |plugin| {
            plugin.rolled_back_from.is_some() && plugin.digest == good.digest()
        })
        .await;
    let from = back[0].rolled_back_from.as_ref().expect("taken back");
    assert_eq!((from.number, from.version.as_str()), (number, "0.2.0"));
    assert_eq!(from.digest, bad.digest());
    assert!(NAMES.contains(&from.by.as_str()), "{from:?}");
    assert!(from.why.contains("unreachable"), "{from:?}");
    let newest = three.operator.newest("noter").await.expect("a revision");
    assert_eq!(newest.number, number + 1);
    assert_eq!(newest.record.action, Action::Rollback);
    assert_eq!(newest.record.of, Some(1));
    assert!(newest.record.who.starts_with("aedile@"));

    // It ticked well before: what fails later is not taken back.
    three.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_fails_its_first_ticks_is_taken_back_sqlite() {
    a_version_that_fails_its_first_ticks_is_taken_back(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_fails_its_first_ticks_is_taken_back_postgres() {
    a_version_that_fails_its_first_ticks_is_taken_back(Kind::Postgres).await;
}

async fn a_version_on_trial_changes_nothing(kind: Kind) {
    let three = Three::start(kind).await;
    let old = Module::noter("noter", "0.1.0", "old", "1");
    three.operator.deploy(&old, |_| {}).await;
    three.operator.key(&key("noter", "old"), true).await;
    let new = Module::noter("noter", "0.2.0", "new", "2");
    let number = three
        .operator
        .deploy(&new, |record| record.canary = 5)
        .await;
    // While it is on trial, the holder shows how far it is, and what differs.
    let shown = three
        .operator
        .any("a trial with a difference", |status| {
            status.plugins.iter().any(|plugin| {
                matches!(
                    plugin.wanted.as_ref().map(|wanted| &wanted.state),
                    Some(WantedState::Canary { last: Some(last), .. })
                        if last.contains(&key("noter", "new"))
                ) && plugin.digest == old.digest()
            }) || status
                .plugins
                .iter()
                .any(|plugin| plugin.digest == new.digest())
        })
        .await;
    drop(shown);
    three.operator.key(&key("noter", "new"), true).await;
    three.run(&new).await;
    let newest = three.operator.newest("noter").await.expect("a revision");
    assert_eq!(newest.number, number + 1, "{newest:?}");
    assert_eq!(newest.record.action, Action::Promote);
    assert_eq!((newest.record.of, newest.record.canary), (Some(number), 0));
    assert!(
        newest
            .record
            .why
            .contains("5 ticks on trial, 5 of them differ"),
        "{}",
        newest.record.why
    );
    // Nothing of it was applied before: the key came with the promotion.
    let mut raw = three.site.raw().await;
    let commands = outside::after(&mut raw, 0).await;
    let place = |text: &str| {
        commands
            .iter()
            .position(|(command, _)| format!("{command:?}").contains(text))
            .unwrap_or_else(|| panic!("no command about {text}"))
    };
    assert!(place(&key("noter", "new")) > place(&format!("noter/rev/{:010}", number + 1)));
    let runs = three.operator.runs(100).await;
    assert!(
        runs.iter()
            .any(|run| run.outcome == "canary" && run.summary.contains(&key("noter", "new")))
    );
    assert!(runs.iter().any(|run| run.outcome == "promoted"));

    // One that fails on trial never runs.
    let bad = Module::trapping("noter", "0.3.0");
    let number = three
        .operator
        .deploy(&bad, |record| record.canary = 5)
        .await;
    three
        .operator
        .all(&NAMES, "noter", "it was taken back", |plugin| {
            plugin
                .rolled_back_from
                .as_ref()
                .is_some_and(|from| from.number == number && from.why.starts_with("on trial"))
                && plugin.digest == new.digest()
        })
        .await;
    let runs = three.operator.runs(100).await;
    assert!(
        !runs
            .iter()
            .any(|run| run.digest == bad.digest() && run.outcome != "canary-failed")
    );
    three.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_on_trial_changes_nothing_sqlite() {
    a_version_on_trial_changes_nothing(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_on_trial_changes_nothing_postgres() {
    a_version_on_trial_changes_nothing(Kind::Postgres).await;
}

async fn a_tick_comes_when_asked_for(kind: Kind) {
    let three = Three::start(kind).await;
    let noter = Module::noter("noter", "0.1.0", "asked", "1");
    three
        .operator
        .deploy(&noter, |record| record.schedule.on_demand = true)
        .await;
    let resting = three.run(&noter).await;
    assert!(resting.iter().all(|plugin| plugin.schedule == "on demand"));
    assert!(
        resting.iter().all(|plugin| plugin.ticks == 0),
        "{resting:?}"
    );
    let request = three.operator.run_now("noter").await;
    three.operator.key(&request, false).await;
    three.operator.key(&key("noter", "asked"), true).await;
    let runs = three.operator.runs(10).await;
    let run = runs
        .iter()
        .find(|run| run.plugin == "noter")
        .expect("a run that was asked for is in the history");
    assert_eq!(run.detail["asked_by"][0], "operator@test");

    // A request survives the one who led when it came.
    let mut three = three;
    let leads = three.leads().await;
    three.nodes[leads].crash();
    let request = three.operator.run_now("noter").await;
    three.operator.key(&request, false).await;
    three.nodes[leads] = node(&three.site, NAMES[leads]);

    // By the calendar: every second, by the database's clock.
    three
        .operator
        .revise("noter", Action::Set, |record| {
            record.schedule.on_demand = false;
            record.schedule.cron = Some("* * * * * *".to_owned());
        })
        .await;
    three.operator.key("aedile/plugin-cron/noter", true).await;
    three
        .operator
        .any("it ticks by the calendar", |status| {
            status
                .plugins
                .iter()
                .any(|plugin| plugin.schedule.starts_with("cron") && plugin.ticks >= 3)
        })
        .await;
    three.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_comes_when_asked_for_sqlite() {
    a_tick_comes_when_asked_for(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_comes_when_asked_for_postgres() {
    a_tick_comes_when_asked_for(Kind::Postgres).await;
}

/// The cleaner that is built in, as a module to deploy.
fn cleaner(version: &str) -> Module {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../host/cli/modules/cleaner.wasm"
    );
    Module {
        name: "cleaner".to_owned(),
        version: version.to_owned(),
        bytes: std::fs::read(path).expect("the module").into(),
        grants: [
            "state",
            "metrics",
            "storage.delete",
            "commands.clean-destroyed",
        ]
        .map(str::to_owned)
        .into(),
    }
}

async fn what_is_built_in_is_swapped_and_comes_back(kind: Kind) {
    let three = Three::with(kind, 4, 20).await;
    let mut raw = three.site.raw().await;
    drained(&mut raw, BOUND).await;
    let embedded = cleaner("0.1.0");
    let newer = embedded.variant("newer");
    three.operator.deploy(&newer, |_| {}).await;
    three.run(&newer).await;
    // It works.
    cleans(&three, &three.site.made.live[..2]).await;

    // One that fails at once: back to what ran before.
    let bad = Module::trapping("cleaner", "9.0.0");
    three.operator.deploy(&bad, |_| {}).await;
    three
        .operator
        .all(&NAMES, "cleaner", "it was taken back", |plugin| {
            plugin.rolled_back_from.is_some() && plugin.digest == newer.digest()
        })
        .await;

    // Reset.
    three
        .operator
        .revise("cleaner", Action::Reset, |record| {
            record.module = ModuleRef::Embedded;
            record.version.clear();
        })
        .await;
    three
        .operator
        .all(&NAMES, "cleaner", "what is built in runs", |plugin| {
            plugin.digest == embedded.digest()
        })
        .await;
    cleans(&three, &three.site.made.live[2..3]).await;
    three.end().await;
}

/// Destroy these objects, and wait until the cleaner has taken them.
async fn cleans(three: &Three, ids: &[u64]) {
    let mut raw = three.site.raw().await;
    cluster::destroyed(&mut raw, ids).await;
    drained(&mut raw, BOUND).await;
    for &id in ids {
        let path = three.site.objects().join(aedile_storage::object_key(id));
        assert!(!path.exists(), "the bytes of {id} are there");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_built_in_is_swapped_and_comes_back_sqlite() {
    what_is_built_in_is_swapped_and_comes_back(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_built_in_is_swapped_and_comes_back_postgres() {
    what_is_built_in_is_swapped_and_comes_back(Kind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_file_stops_on_this_node_without_the_log() {
    use std::os::unix::fs::PermissionsExt as _;
    let site = Site::new(Kind::Sqlite, 4, 0).await;
    let file = site.dir().join("stop");
    let path = file.display().to_string();
    let more = ["--heartbeat", "1s", "--stop-file", &path];
    let mut one = site.node("a", "2s", &more);
    let operator = Operator::new(&site).await;
    let noter = Module::noter("noter", "0.1.0", "key", "1");
    operator.deploy(&noter, |_| {}).await;
    operator.key(&key("noter", "key"), true).await;

    std::fs::write(&file, "# broken\nnoter\n").expect("written");
    let stopped = operator
        .all(&["a"], "noter", "it is stopped", |plugin| {
            plugin.state == PluginState::Stopped
        })
        .await;
    let ticks = stopped[0].ticks;
    let status = operator
        .any("the file", |status| status.stop_file.is_some())
        .await;
    let told = status.stop_file.expect("the file");
    assert_eq!(
        (told.plugins.as_slice(), told.problem),
        (&["noter".to_owned()][..], None)
    );
    // The others go on: an interval of the cleaner, in which the noter's would
    // have passed many times.
    let others = ticks_of(&operator, "expiry").await;
    until("the others go on", BOUND, async || {
        (ticks_of(&operator, "expiry").await > others).then_some(())
    })
    .await;
    assert_eq!(ticks_of(&operator, "noter").await, ticks);

    // One that others may write is refused, loudly, and stops nothing.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).expect("set");
    operator
        .any("it is refused", |status| {
            status.stop_file.as_ref().is_some_and(|file| {
                file.problem
                    .as_ref()
                    .is_some_and(|problem| problem.contains("chmod go-w"))
            })
        })
        .await;
    assert!(one.log().contains("is not heeded"));
    until("it ticks", BOUND, async || {
        (ticks_of(&operator, "noter").await > ticks).then_some(())
    })
    .await;

    // All of them: another node leads.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("set");
    std::fs::write(&file, "*\n").expect("written");
    let two = node(&site, "b");
    let mut raw = site.raw().await;
    until("another leads", BOUND, async || {
        outside::lease(&mut raw).await?.names("b").then_some(())
    })
    .await;
    std::fs::remove_file(&file).expect("removed");
    operator
        .any("it contends again", |status| {
            status.node == "a" && status.role == aedile_runtime::Role::Follower
        })
        .await;
    operator.close().await;
    assert_eq!(one.stop(), Some(0));
    drop(two);
}

async fn ticks_of(operator: &Operator, name: &str) -> u64 {
    operator
        .all(&["a"], name, "its ticks", |_| true)
        .await
        .first()
        .map_or(0, |plugin| plugin.ticks)
}
