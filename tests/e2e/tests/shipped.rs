//! The plugins that ship and are off until they are enabled, on stores that
//! PicoMQ wrote: what their dry run says, what they then do, and nothing else.

use std::collections::BTreeSet;
use std::path::PathBuf;

use aedile_state::{Command, Operation, State, StreamId};
use aedile_storage::object_key;
use aedile_tests_e2e::captured::Captured;
use aedile_tests_e2e::{binary, cluster, ledger, outside};
use serde_json::Value;

struct Site {
    captured: Captured,
    config: PathBuf,
}

impl Site {
    /// A large store of PicoMQ's, with this configuration file.
    fn new(config: &str) -> Self {
        Self::of("store-b", config)
    }

    fn of(name: &'static str, config: &str) -> Self {
        let captured = Captured::unpack(name);
        let file = captured.dir().join("aedile.toml");
        std::fs::write(&file, config).expect("written");
        Self {
            captured,
            config: file,
        }
    }

    fn command(&self, code: i32, command: &[&str]) -> Value {
        let (url, storage) = (self.captured.meta_url(), self.captured.storage());
        let config = self.config.to_str().expect("UTF-8");
        let place = [
            "--meta-url",
            &url,
            "--storage",
            &storage,
            "--config",
            config,
            "--json",
        ];
        binary::json_for(code, &[command, &place[..]].concat())
    }

    /// What a pass would do; the plan writes nothing.
    fn plan(&self) -> Value {
        let before = outside::files(self.captured.dir());
        let plan = self.command(0, &["plan", "--all"]);
        assert_eq!(
            outside::files(self.captured.dir()),
            before,
            "the plan wrote"
        );
        plan
    }

    fn pass(&self, code: i32) -> Value {
        self.command(code, &["run", "--until-idle", "--ttl", "2s"])
    }

    async fn state(&self) -> State {
        let mut raw = outside::connect(&self.captured.meta_url()).await;
        let state = outside::state(&mut raw).await;
        raw.close().await.expect("closed");
        state
    }

    async fn append(&self, commands: Vec<Command>) {
        let mut raw = outside::connect(&self.captured.meta_url()).await;
        cluster::append(&mut raw, commands).await;
        raw.close().await.expect("closed");
    }

    fn object(&self, id: u64) -> PathBuf {
        self.captured.objects().join(object_key(id))
    }
}

/// The commands of one plugin in a plan, by name.
fn commands<'a>(plan: &'a Value, plugin: &str) -> Vec<&'a str> {
    let all = plan["commands"].as_array().expect("a list of commands");
    all.iter()
        .filter(|command| command["plugin"] == plugin)
        .map(|command| command["command"].as_str().expect("a name"))
        .collect()
}

fn json(state: &State, key: &str) -> Value {
    let bytes = state
        .kv_get(key)
        .unwrap_or_else(|| panic!("{key} is missing"));
    serde_json::from_slice(bytes).expect("JSON")
}

fn findings(state: &State) -> Vec<(u64, Value)> {
    let prefix = "aedile/kv/scrub/found/";
    state
        .kv_scan(prefix, None)
        .map(|(key, _)| {
            (
                key[prefix.len()..].parse().expect("an id"),
                json(state, key),
            )
        })
        .collect()
}

#[tokio::test]
async fn scrub_finds_a_store_of_picomqs_whole_and_every_damage_to_it() {
    let config = "[plugins.scrub]\nenabled = true\n";
    // A real node wrote this one, with real bytes.
    let whole = Site::of("node-a", config);
    let planned = whole.plan();
    assert!(!commands(&planned, "scrub").is_empty(), "{planned}");
    let before = whole.state().await;
    let live = outside::live(&before);
    assert_eq!(live.len(), 36);
    whole.pass(0);
    let after = whole.state().await;
    assert_eq!(json(&after, "aedile/kv/scrub/pass")["checked"], 36);
    assert_eq!(json(&after, "aedile/kv/scrub/pass")["ended"], true);
    assert_eq!(findings(&after), []);
    assert_eq!(outside::live(&after), live);

    let damaged = Site::of("node-a", config);
    let mut ids = live.iter().copied();
    let (gone, cut) = (ids.nth(5).expect("many"), ids.nth(5).expect("many"));
    std::fs::remove_file(damaged.object(gone)).expect("removed");
    let bytes = std::fs::read(damaged.object(cut)).expect("read");
    std::fs::write(damaged.object(cut), &bytes[..bytes.len() - 1]).expect("cut");
    damaged.pass(0);
    let after = damaged.state().await;
    let found = findings(&after);
    assert_eq!(
        found.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        [gone, cut]
    );
    assert!(
        found
            .iter()
            .all(|(_, finding)| finding["confirmed"] == true),
        "{found:?}"
    );
    assert_eq!(found[0].1["wrong"], "missing");
    assert_eq!(found[1].1["wrong"]["size"], bytes.len() as u64 - 1);
    assert_eq!(outside::live(&after), live, "it reports and takes nothing");
}

/// A name as PicoMQ notes it.
fn name(stream: u64) -> Vec<u8> {
    [&[1][..], &stream.to_be_bytes(), &[0; 40]].concat()
}

/// Bytes of a stream's own objects above its start.
fn kept(state: &State, stream: StreamId) -> u64 {
    let start = state.stream(stream).expect("the stream").start_offset;
    let objects = state.stream_objects_after(stream, None);
    objects
        .filter(|object| {
            object
                .ranges
                .as_slice()
                .iter()
                .any(|range| range.end_offset > start)
        })
        .map(|object| object.size)
        .sum()
}

#[tokio::test]
async fn retention_trims_what_its_rules_say_and_trimmed_takes_it_away() {
    let site = Site::new(
        "[plugins.retention]\nenabled = true\n[plugins.retention.config]\n\
         rules = [{ streams = \"/logs/\", max-bytes = 500 }, { streams = \"/old/\", max-age = \"1h\" }]\n\
         [plugins.trimmed]\nenabled = true\n",
    );
    let (by_size, by_age) = (StreamId(0), StreamId(1));
    let put = |key: &str, stream: StreamId| Command::PutKv {
        key: key.to_owned(),
        value: name(stream.0),
    };
    site.append(vec![
        put("/logs/a", by_size),
        put("/old/b", by_age),
        put("/else", StreamId(2)),
    ])
    .await;
    let before = site.state().await;
    assert!(
        kept(&before, by_size) > 500,
        "the capture has enough to trim"
    );
    let plan = site.plan();
    assert_eq!(commands(&plan, "retention").len(), 2, "{plan}");
    site.pass(0);
    let after = site.state().await;
    for stream in before.streams_after(None) {
        let now = after.stream(stream.id).expect("still there");
        if stream.id == by_size {
            assert!(now.start_offset > stream.start_offset && now.start_offset < now.end_offset);
        } else if stream.id == by_age {
            // All of the capture is years old.
            assert_eq!(now.start_offset, now.end_offset);
        } else {
            assert_eq!(now, stream, "no rule speaks of it");
        }
    }
    let left = kept(&after, by_size);
    assert!(left >= 500, "{left} bytes are kept");
    // What was trimmed away left the catalog, and then the storage; nothing else.
    site.pass(0);
    let last = site.state().await;
    let (had, has) = (outside::live(&before), outside::live(&last));
    let gone: BTreeSet<u64> = had.difference(&has).copied().collect();
    assert!(!gone.is_empty());
    for &id in &gone {
        let object = before
            .object(aedile_state::ObjectId(id))
            .expect("it was live");
        let range = object.ranges.as_slice()[0];
        let start = last.stream(range.stream).expect("the stream").start_offset;
        assert!(range.end_offset <= start, "{id} held readable data");
        assert!(!site.object(id).exists(), "{id} is still there");
    }
    let bytes = ledger::read(&site.captured.objects());
    assert!(has.iter().all(|&id| bytes.contains_key(&object_key(id))));
    assert_eq!(
        last.marks_after(None)
            .filter(|(_, _, of)| *of == Operation::Delete)
            .count(),
        0
    );
    assert_eq!(commands(&site.plan(), "retention"), Vec::<&str>::new());
}

#[tokio::test]
async fn kv_ttl_takes_the_keys_that_it_was_told_of_and_no_other() {
    let site = Site::new(
        "[plugins.kv-ttl]\nenabled = true\nkv-prefixes = [\"sessions/\"]\n\
         [plugins.kv-ttl.config]\nrules = [{ prefix = \"sessions/\", ttl = \"1ms\" }]\n",
    );
    let put = |key: &str| Command::PutKv {
        key: key.to_owned(),
        value: b"x".to_vec(),
    };
    site.append(vec![
        put("sessions/1"),
        put("sessions/2"),
        put("session"),
        put("/a/stream"),
    ])
    .await;
    let before = site.state().await;
    assert!(!commands(&site.plan(), "kv-ttl").is_empty());
    site.pass(0);
    site.pass(0);
    let after = site.state().await;
    let keys = |state: &State| -> BTreeSet<String> {
        state
            .kv_scan("", None)
            .map(|(key, _)| key.to_owned())
            .collect()
    };
    let gone: Vec<_> = keys(&before).difference(&keys(&after)).cloned().collect();
    assert_eq!(gone, ["sessions/1", "sessions/2"]);
}

#[test]
fn what_is_off_runs_only_where_it_is_told_what_to_do() {
    let site = Site::new("");
    let plan = site.plan();
    let ran = plan["plugins"].as_array().expect("a list");
    let names: BTreeSet<&str> = ran
        .iter()
        .filter_map(|plugin| plugin["plugin"].as_str())
        .collect();
    assert_eq!(names, BTreeSet::from(["cleaner", "expiry"]));
    let site = Site::new("[plugins.retention]\nenabled = true\n");
    let (url, storage) = (site.captured.meta_url(), site.captured.storage());
    let config = site.config.to_str().expect("UTF-8");
    let output = binary::run(&[
        "plan",
        "--meta-url",
        &url,
        "--storage",
        &storage,
        "--config",
        config,
    ]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("rules is empty"), "{said}");
}
