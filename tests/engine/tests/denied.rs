//! Everything is denied unless it was granted, function by function; and no
//! grant opens the control range of the key-value map.

use std::sync::Arc;

use aedile_clock::{SharedClock, SystemClock};
use aedile_engine::{Grant, Grants, LoadError};
use aedile_log::View;
use aedile_runtime::trial::{Ground, Subject, trial};
use aedile_runtime::{OrphanOptions, PluginSettings};
use aedile_state::{Command, State};
use aedile_storage::{Store, StoreOptions};
use aedile_tests_engine::{Import, engine, imports, module};
use tempfile::TempDir;

/// A guest that imports one function, with this manifest.
fn importing(import: &Import, wants: &[&str]) -> Vec<u8> {
    let grants: Vec<String> = wants.iter().map(|grant| format!("\"{grant}\"")).collect();
    let text = format!(
        ";; manifest: {{\"name\":\"one\",\"version\":\"0.1.0\",\"grants\":[{}],\
         \"schedule\":{{\"interval\":\"1s\"}}}}\n{}",
        grants.join(","),
        import.field("$import")
    );
    module("one", &text)
}

/// The grant that an import needs; none for what is always there.
fn needed(import: &Import) -> Option<Grant> {
    let name = match import.interface.as_str() {
        "job" | "logging" => return None,
        whole @ ("state" | "metrics") => whole.to_owned(),
        interface => format!("{interface}.{}", import.function),
    };
    Some(name.parse().expect("each function has its grant"))
}

#[tokio::test]
async fn each_import_is_denied_until_it_alone_is_granted() {
    let mut seen = std::collections::BTreeSet::new();
    for import in imports() {
        let what = format!("{}.{}", import.interface, import.function);
        let Some(grant) = needed(&import) else {
            let bytes = importing(&import, &[]);
            let loaded = engine().load(bytes, &Grants::default()).await;
            loaded.unwrap_or_else(|error| panic!("{what}: {error}"));
            continue;
        };
        seen.insert(grant);
        let name = grant.to_string();
        let bytes = importing(&import, &[&name]);
        let others: Grants = Grant::all().filter(|other| *other != grant).collect();
        for grants in [Grants::default(), others] {
            let error = engine().load(bytes.clone(), &grants).await;
            assert_eq!(error.err(), Some(LoadError::NotGranted { grant }), "{what}");
        }
        let alone: Grants = [grant].into_iter().collect();
        let loaded = engine().load(bytes, &alone).await;
        loaded.unwrap_or_else(|error| panic!("{what}: {error}"));
        // What its manifest does not say, no grant gives.
        let error = engine().load(importing(&import, &[]), &Grants::all()).await;
        let error = error.expect_err("it is not in the manifest");
        assert!(error.to_string().contains(&name), "{what}: {error}");
    }
    assert_eq!(seen, Grant::all().collect(), "a grant without an import");
}

struct Place {
    ground: Ground,
    _directory: TempDir,
}

fn place(state: State) -> Place {
    let directory = tempfile::tempdir().expect("a directory");
    let clock: SharedClock = Arc::new(SystemClock);
    let uri = format!("file://{}", directory.path().display());
    let uri = uri.parse().expect("a URI");
    Place {
        ground: Ground {
            now: clock.unix(),
            engine: Arc::new(engine().clone()),
            view: View { index: 1, state },
            store: Store::open(&uri, StoreOptions::default(), clock.clone()).expect("a store"),
            confirm_empty_store: false,
            orphans: OrphanOptions::default(),
            clock,
        },
        _directory: directory,
    }
}

/// Nobody has to set anything for these two, and for no other.
#[tokio::test]
async fn without_settings_only_what_is_harmless_is_granted() {
    let place = place(State::new());
    for import in imports() {
        let Some(grant) = needed(&import) else {
            continue;
        };
        let name = grant.to_string();
        let subject = Subject {
            bytes: importing(&import, &[&name]).into(),
            settings: PluginSettings::default(),
            grant_wanted: false,
        };
        let tried = trial(&place.ground, &subject, 0).await;
        match tried {
            Ok(_) => assert!(["state", "metrics"].contains(&&*name), "{name} is granted"),
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains(&format!("(\"{name}\")")), "{text}");
                assert!(text.contains("grants = ["), "{text}");
                assert_eq!(text.contains("destructive"), grant.destructive(), "{text}");
            }
        }
    }
}

/// Keys as the control range has them, and what might be taken for one of them.
const SPELLINGS: [&str; 24] = [
    "aedile/plugin/guest/rev/0000000001",
    "aedile/plugin/guest/rev/0000000002",
    "aedile/plugin/guest/run/x",
    "aedile/plugin/",
    "aedile/plugin",
    "aedile/parked/1",
    "aedile/orphans/x",
    "aedile/",
    "aedile",
    "aedile/kv",
    "aedile/kv/",
    "aedile/kv/other/x",
    "aedile/kv/guest",
    "aedile/kv/guest2/x",
    "aedile/kv/../plugin/guest/rev/0000000001",
    "aedile//plugin/guest/rev/0000000001",
    "./aedile/plugin/guest/rev/0000000001",
    "/aedile/plugin/guest/rev/0000000001",
    "aedile\\plugin\\guest\\rev\\0000000001",
    "aedile%2Fplugin%2Fguest",
    "AEDILE/plugin/guest/rev/0000000001",
    "aedile\u{2215}plugin/guest",
    "aedile/plugin\0/guest",
    " aedile/plugin/guest",
];

/// The three calls that write a key, each with this one.
fn writer(call: &str, key: &str) -> Vec<u8> {
    let bytes: String = key.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    let length = format!("\\{:02x}\\00\\00\\00", key.len());
    let text = format!(
        ";; grants: commands.{call}\n\
         (import \"aedile:maintenance/commands@0.1.0\" \"{call}\" (func $write (param i32 i32 i32)))\n\
         (memory (export \"memory\") 4)\n\
         (data (i32.const 0) \"{bytes}\")\n\
         (data (i32.const 128) \"1\")\n\
         (data (i32.const 256) \"\\00\\00\\00\\00{length}\\80\\00\\00\\00\\01\\00\\00\\00\")\n\
         (func (export \"aedile:maintenance/maintenance@0.1.0#tick\") (result i32)\n\
         (call $write (i32.const 256) (i32.const 1) (i32.const 2048)) (i32.const 1024))"
    );
    module("guest", &text)
}

#[tokio::test]
async fn no_spelling_of_a_key_reaches_the_control_range() {
    // Some of the keys are there, so that a delete would change something.
    let mut state = State::new();
    for key in SPELLINGS.iter().step_by(2) {
        let put = Command::PutKv {
            key: (*key).to_owned(),
            value: b"0".to_vec(),
        };
        state.apply(&put).expect("a key can be put");
    }
    let place = place(state);
    // As an operator may set them, and as none can.
    let wide = [
        "a",
        "aedile",
        "aedile/",
        "aedile/plugin/",
        "aedile/k",
        "",
        "AED",
        "x/",
    ];
    for call in ["put-kv", "put-kv-if-absent", "delete-kv"] {
        for key in SPELLINGS {
            for prefixes in [&[][..], &wide] {
                let subject = Subject {
                    bytes: writer(call, key).into(),
                    settings: PluginSettings {
                        kv_prefixes: prefixes.iter().map(|text| (*text).to_owned()).collect(),
                        ..PluginSettings::default()
                    },
                    grant_wanted: true,
                };
                let trial = trial(&place.ground, &subject, 0).await.expect("it loads");
                assert!(!trial.sent.is_empty(), "the call was made");
                assert_eq!(trial.failure, None);
                // Only keys that lie elsewhere were opened by the wide prefixes.
                let elsewhere = !prefixes.is_empty()
                    && !key.starts_with("aedile/")
                    && wide.iter().any(|prefix| {
                        !prefix.is_empty() && key.len() > prefix.len() && key.starts_with(prefix)
                    });
                if !elsewhere {
                    assert_eq!(trial.commands, [], "{call} {key:?} {prefixes:?}");
                }
            }
        }
    }
}

/// What looks like a way out of the plugin's own part is a plain key in it.
#[tokio::test]
async fn a_path_below_its_own_prefix_is_only_a_name() {
    let place = place(State::new());
    for key in [
        "aedile/kv/guest/../../plugin/guest/rev/0000000001",
        "aedile/kv/guest//x",
        "aedile/kv/guest/\u{0}",
    ] {
        let subject = Subject {
            bytes: writer("put-kv", key).into(),
            settings: PluginSettings::default(),
            grant_wanted: true,
        };
        let trial = trial(&place.ground, &subject, 0).await.expect("it loads");
        let details: Vec<_> = trial
            .commands
            .iter()
            .map(|put| put.detail.as_str())
            .collect();
        assert_eq!(details, [format!("{key} (1 bytes)")]);
    }
}

#[test]
fn a_manifest_cannot_want_a_whole_interface_of_commands() {
    for wanted in ["commands", "storage", "commands.*", "*", "all", "job"] {
        let error = wanted.parse::<Grant>().expect_err(wanted).to_string();
        assert!(error.contains(wanted), "{error}");
    }
}
