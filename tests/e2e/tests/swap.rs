//! Plugins deployed through the log to three nodes: deployed, swapped, refused,
//! mended.

use aedile_runtime::control::{Action, ModuleRef};
use aedile_runtime::{PluginState, WantedState};
use aedile_storage::MODULE_PREFIX;
use aedile_tests_contract::databases::Kind;
use aedile_tests_e2e::operator::{Module, Operator};
use aedile_tests_e2e::site::Site;
use aedile_tests_e2e::three::{NAMES, Three, key, node, wanted};

async fn a_version_follows_another(kind: Kind) {
    let mut three = Three::start(kind).await;
    let first = Module::noter("noter", "0.1.0", "first", "1");
    let number = three.operator.deploy(&first, |_| {}).await;
    assert_eq!(number, 1);
    three.operator.key(&key("noter", "first"), true).await;
    let started = three.run(&first).await;
    assert!(started.iter().all(|plugin| plugin.revision == Some(1)));

    // Several at once are one swap, to the last.
    let second = Module::noter("noter", "0.2.0", "second", "1");
    let third = Module::noter("noter", "0.3.0", "third", "1");
    three.operator.deploy(&second, |_| {}).await;
    three.operator.deploy(&third, |_| {}).await;
    three.operator.key(&key("noter", "third"), true).await;
    three.run(&third).await;

    // The one that leads is killed right after a deploy: whoever leads next runs
    // the new version, and the killed one too when it is back.
    let fourth = Module::noter("noter", "0.4.0", "fourth", "1");
    let leads = three.leads().await;
    three.operator.deploy(&fourth, |_| {}).await;
    three.nodes[leads].crash();
    three.nodes[leads] = node(&three.site, NAMES[leads]);
    three.operator.key(&key("noter", "fourth"), true).await;
    let now = three.run(&fourth).await;
    // Nobody else was started again.
    for (place, plugin) in now.iter().enumerate().filter(|(place, _)| *place != leads) {
        assert!(plugin.loads >= 1, "{place}: {plugin:?}");
    }

    // Off at once, on again.
    three
        .operator
        .revise("noter", Action::Disable, |record| record.enabled = false)
        .await;
    three
        .operator
        .all(&NAMES, "noter", "it rests", |plugin| {
            plugin.state == PluginState::Disabled
        })
        .await;
    three
        .operator
        .revise("noter", Action::Enable, |record| record.enabled = true)
        .await;
    three.run(&fourth).await;
    // Gone; the keys stay.
    three
        .operator
        .revise("noter", Action::Remove, |record| record.removed = true)
        .await;
    three
        .operator
        .any("it is gone", |status| {
            !status.plugins.iter().any(|plugin| plugin.name == "noter")
        })
        .await;
    three.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wapc_rs_50_a_version_follows_another_sqlite() {
    a_version_follows_another(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wapc_rs_50_a_version_follows_another_postgres() {
    a_version_follows_another(Kind::Postgres).await;
}

async fn what_asks_for_more_waits(kind: Kind) {
    let three = Three::start(kind).await;
    let modest = Module::noter("noter", "0.1.0", "modest", "1");
    three.operator.deploy(&modest, |_| {}).await;
    three.run(&modest).await;

    let delete =
        r#"(import "aedile:maintenance/commands@0.1.0" "delete-kv" (func (param i32 i32 i32)))"#;
    let text = aedile_tests_e2e::operator::noter("noter", "greedy", "1").replacen(
        "(memory",
        &format!("{delete}\n(memory"),
        1,
    );
    let greedy = Module::of(
        "noter",
        "0.2.0",
        &["commands.put-kv", "commands.delete-kv"],
        &text,
    );
    let withheld = |record: &mut aedile_runtime::control::Record| {
        record.grants.retain(|grant| grant != "commands.delete-kv");
    };
    three.operator.deploy(&greedy, withheld).await;
    let waiting = three
        .operator
        .all(&NAMES, "noter", "it needs approval", |plugin| {
            matches!(wanted(plugin), WantedState::NeedsApproval { .. })
        })
        .await;
    for plugin in &waiting {
        assert_eq!(plugin.digest, modest.digest(), "the old one runs on");
        let WantedState::NeedsApproval { missing, command } = wanted(plugin) else {
            panic!("{plugin:?}");
        };
        assert_eq!(missing, &["commands.delete-kv"]);
        assert_eq!(command, "aedile plugin grant noter commands.delete-kv");
    }
    // A node that starts now finds the older one by itself.
    let grant = |record: &mut aedile_runtime::control::Record| {
        record.grants.push("commands.delete-kv".to_owned());
    };
    three.operator.revise("noter", Action::Grant, grant).await;
    three.operator.key(&key("noter", "greedy"), true).await;
    three.run(&greedy).await;

    // What is taken back stays taken back: the older version would need it too.
    three
        .operator
        .revise("noter", Action::Revoke, |record| {
            record.grants.retain(|grant| grant != "commands.put-kv");
        })
        .await;
    let revoked = three
        .operator
        .all(&NAMES, "noter", "nothing of it runs", |plugin| {
            plugin.state == PluginState::Absent
        })
        .await;
    assert!(matches!(
        wanted(&revoked[0]),
        WantedState::NeedsApproval { missing, .. } if missing == &["commands.put-kv"]
    ));
    three.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claudette_580_what_asks_for_more_waits_sqlite() {
    what_asks_for_more_waits(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claudette_580_what_asks_for_more_waits_postgres() {
    what_asks_for_more_waits(Kind::Postgres).await;
}

async fn a_flipped_byte_is_refused_until_it_is_mended(kind: Kind) {
    let three = Three::start(kind).await;
    let good = Module::noter("noter", "0.1.0", "good", "1");
    three.operator.deploy(&good, |_| {}).await;
    three.run(&good).await;

    // Uploaded well, damaged in the storage before anybody fetches it.
    let next = Module::noter("noter", "0.2.0", "next", "1");
    three.operator.upload(&next).await;
    let path = three
        .site
        .objects()
        .join(format!("{MODULE_PREFIX}{}", next.digest()));
    let mut bytes = std::fs::read(&path).expect("the module");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    // Past the upload, which would mend it.
    let stored = ModuleRef::Stored(aedile_runtime::control::StoredModule {
        digest: next.digest(),
        size: next.bytes.len() as u64,
        signature: None,
        source: None,
    });
    std::fs::write(&path, &bytes).expect("damaged");
    three
        .operator
        .revise("noter", Action::Deploy, |record| {
            record.module = stored;
            record.version.clone_from(&next.version);
        })
        .await;
    let refused = three
        .operator
        .all(&NAMES, "noter", "it is refused", |plugin| {
            matches!(wanted(plugin), WantedState::Refused { .. })
        })
        .await;
    for plugin in &refused {
        assert_eq!(plugin.digest, good.digest(), "the old one runs on");
        let WantedState::Refused { reason } = wanted(plugin) else {
            panic!("{plugin:?}");
        };
        assert!(
            reason.contains("is not that module") && reason.contains("Deploy the same file again"),
            "{reason}"
        );
    }
    for node in &three.nodes {
        let log = node.log();
        assert!(
            log.contains("ERROR") && log.contains("revision refused"),
            "an alarm"
        );
    }
    // The rest runs: another plugin is deployed meanwhile.
    let other = Module::noter("other", "0.1.0", "other", "1");
    three.operator.deploy(&other, |_| {}).await;
    three.run(&other).await;
    // Uploaded again, it is taken up.
    three.operator.upload(&next).await;
    three.operator.key(&key("noter", "next"), true).await;
    three.run(&next).await;
    three.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn istio_32002_a_flipped_byte_is_refused_until_it_is_mended_sqlite() {
    a_flipped_byte_is_refused_until_it_is_mended(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn istio_32002_a_flipped_byte_is_refused_until_it_is_mended_postgres() {
    a_flipped_byte_is_refused_until_it_is_mended(Kind::Postgres).await;
}

/// What the engine refuses leaves the old version running, and the reason says
/// what to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wadm_770_what_is_wanted_and_what_runs_are_both_shown() {
    let site = Site::new(Kind::Sqlite, 4, 0).await;
    let mut one = node(&site, "a");
    let operator = Operator::new(&site).await;
    let good = Module::noter("noter", "0.1.0", "good", "1");
    operator.deploy(&good, |_| {}).await;
    operator.key(&key("noter", "good"), true).await;
    let guest = |name: &str| {
        let path = format!("{}/../engine/guests/{name}.wat", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).expect("a guest")
    };
    let renamed = Module::noter("other", "0.1.0", "x", "1");
    for (what, bytes, says) in [
        (
            "a WASI import",
            Module::of("noter", "2.0.0", &[], &guest("wasi_http")).bytes,
            "wasi:http",
        ),
        (
            "a newer WIT",
            Module::of("noter", "2.0.0", &[], &guest("wrong_version")).bytes,
            "this host serves",
        ),
        (
            "preview 1",
            Module::of("noter", "2.0.0", &[], &guest("preview1")).bytes,
            "preview 1",
        ),
        (
            "another name",
            renamed.bytes,
            "its manifest names it `other`",
        ),
        ("no Wasm", b"MZ".as_slice().into(), "not a Wasm module"),
    ] {
        let bad = Module {
            name: "noter".to_owned(),
            version: "2.0.0".to_owned(),
            bytes,
            grants: Vec::new(),
        };
        let number = operator.deploy(&bad, |_| {}).await;
        let refused = operator
            .all(&["a"], "noter", what, |plugin| {
                plugin.wanted.as_ref().is_some_and(|wanted| {
                    wanted.number == number && matches!(wanted.state, WantedState::Refused { .. })
                })
            })
            .await;
        let plugin = &refused[0];
        assert_eq!(plugin.digest, good.digest(), "{what}: the old one runs on");
        assert_eq!(plugin.revision, Some(1), "{what}");
        let seen = plugin.wanted.as_ref().expect("something is wanted");
        assert_eq!(seen.digest, bad.digest(), "{what}");
        let WantedState::Refused { reason } = &seen.state else {
            panic!("{seen:?}");
        };
        assert!(reason.contains(says), "{what}: {reason}");
    }
    operator.close().await;
    assert_eq!(one.stop(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_deployed_is_taken() {
    let site = Site::new(Kind::Sqlite, 4, 0).await;
    let folder = site.dir().join("plugins");
    std::fs::create_dir(&folder).expect("a directory");
    let noter = Module::noter("noter", "0.1.0", "file", "1");
    std::fs::write(folder.join("noter.wasm"), &noter.bytes).expect("written");
    std::fs::write(
        folder.join("noter.toml"),
        "grants = [\"commands.put-kv\"]\n[schedule]\non-demand = true\n",
    )
    .expect("written");
    let path = folder.display().to_string();
    let mut one = site.node("a", "2s", &["--heartbeat", "1s", "--plugin-dir", &path]);
    let operator = Operator::new(&site).await;
    operator
        .all(&["a"], "noter", "the file runs", |plugin| {
            plugin.origin.ends_with("noter.wasm") && plugin.wanted.is_none()
        })
        .await;
    let deployed = Module::noter("noter", "0.2.0", "deployed", "1");
    operator.deploy(&deployed, |_| {}).await;
    operator.key(&key("noter", "deployed"), true).await;
    let status = operator
        .any("the file is a problem", |status| {
            !status.problems.is_empty()
        })
        .await;
    let text = &status.problems[0].text;
    assert!(
        text.contains("is deployed (revision 1)") && text.contains("remove the file"),
        "{text}"
    );
    operator
        .revise("noter", Action::Remove, |record| record.removed = true)
        .await;
    operator
        .all(&["a"], "noter", "the file runs again", |plugin| {
            plugin.origin.ends_with("noter.wasm")
        })
        .await;
    operator.close().await;
    assert_eq!(one.stop(), Some(0));
}

/// A tick that takes some seconds: it counts before it puts its key.
fn slow(version: &str, key: &str) -> Module {
    let text = aedile_tests_e2e::operator::noter("noter", key, version).replacen(
        "(result i32)\n",
        "(result i32) (local $left i64)\n\
         (local.set $left (i64.const 25000000000))\n\
         (loop $again (local.set $left (i64.sub (local.get $left) (i64.const 1)))\n\
         (br_if $again (i64.ne (local.get $left) (i64.const 0))))\n",
        1,
    );
    Module::of("noter", version, &["commands.put-kv"], &text)
}

/// What is deployed in the middle of a tick changes nothing of that tick.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adm_controller_531_a_tick_ends_on_the_version_that_it_began_with() {
    let site = Site::new(Kind::Sqlite, 4, 0).await;
    let mut one = node(&site, "a");
    let operator = Operator::new(&site).await;
    let old = slow("0.1.0", "old");
    let patient = |record: &mut aedile_runtime::control::Record| {
        record.limits.cpu_ms = Some(120_000);
        record.limits.wall_ms = Some(240_000);
    };
    operator.deploy(&old, patient).await;
    operator
        .any("it is in the middle of a tick", |status| {
            status
                .plugins
                .iter()
                .any(|plugin| plugin.name == "noter" && plugin.state == PluginState::Running)
        })
        .await;
    let new = Module::noter("noter", "0.2.0", "new", "2");
    operator.deploy(&new, |_| {}).await;
    // The status tells what really runs.
    operator
        .all(&["a"], "noter", "it waits for the tick's end", |plugin| {
            plugin.digest == old.digest() && *wanted(plugin) == WantedState::Swapping
        })
        .await;
    operator.key(&key("noter", "old"), true).await;
    operator.key(&key("noter", "new"), true).await;
    let runs = operator.runs(100).await;
    let first_of = |digest: &str| {
        runs.iter()
            .rev()
            .find(|run| run.digest == digest)
            .unwrap_or_else(|| panic!("no run of {digest}: {runs:?}"))
    };
    let (before, after) = (first_of(&old.digest()), first_of(&new.digest()));
    assert_eq!(
        (before.outcome.as_str(), after.outcome.as_str()),
        ("done", "done")
    );
    assert!(before.ended.0 <= after.started.0, "{before:?} {after:?}");
    operator.close().await;
    assert_eq!(one.stop(), Some(0));
}

/// A storage that is away at the start holds up nothing but what lies in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn istio_53279_a_node_starts_without_the_module_and_takes_it_up_later() {
    let site = Site::new(Kind::Sqlite, 4, 0).await;
    let operator = Operator::new(&site).await;
    let noter = Module::noter("noter", "0.1.0", "key", "1");
    operator.deploy(&noter, |_| {}).await;
    let modules = site.objects().join("aedile");
    let away = site.objects().join("away");
    std::fs::rename(&modules, &away).expect("moved");
    let mut one = node(&site, "a");
    let waiting = operator
        .all(&["a"], "noter", "it is missing", |plugin| {
            plugin.state == PluginState::Absent
                && matches!(wanted(plugin), WantedState::Refused { .. })
        })
        .await;
    let WantedState::Refused { reason } = wanted(&waiting[0]) else {
        panic!("{waiting:?}");
    };
    assert!(reason.contains("the storage has no module"), "{reason}");
    operator
        .any("it leads", |status| {
            status.role == aedile_runtime::Role::Holder
        })
        .await;
    std::fs::rename(&away, &modules).expect("moved back");
    operator.key(&key("noter", "key"), true).await;
    operator.close().await;
    assert_eq!(one.stop(), Some(0));
}

/// A module that does not load does not hold up those deployed after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adm_controller_368_a_bad_one_does_not_hold_up_a_good_one() {
    let site = Site::new(Kind::Sqlite, 4, 0).await;
    let mut one = node(&site, "a");
    let operator = Operator::new(&site).await;
    let bad = Module {
        name: "bad".to_owned(),
        version: "0.1.0".to_owned(),
        bytes: b"this is no module".as_slice().into(),
        grants: Vec::new(),
    };
    operator.deploy(&bad, |_| {}).await;
    let good = Module::noter("good", "0.1.0", "good", "1");
    operator.deploy(&good, |_| {}).await;
    operator.key(&key("good", "good"), true).await;
    let refused = operator
        .all(&["a"], "bad", "it is refused", |plugin| {
            matches!(wanted(plugin), WantedState::Refused { .. })
        })
        .await;
    assert_eq!(refused[0].state, PluginState::Absent);
    operator.close().await;
    assert_eq!(one.stop(), Some(0));
}
