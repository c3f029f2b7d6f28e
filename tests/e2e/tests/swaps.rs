//! Random swaps of a plugin that is at work, with kills in between: nothing is
//! lost or done twice, nobody else is started again, and memory stays where it is.
//!
//! `AEDILE_TEST_SWAPS` sets how many; 1000 take some minutes.

use std::collections::BTreeMap;

use aedile_state::Command;
use aedile_tests_contract::databases::Kind;
use aedile_tests_e2e::binary::Node;
use aedile_tests_e2e::operator::{Module, Operator};
use aedile_tests_e2e::site::{BOUND, Site, drained, leader};
use aedile_tests_e2e::wait::until;
use aedile_tests_e2e::{cluster, outside};

/// Swaps unless the variable says otherwise: those after the fiftieth tell
/// whether memory grows.
const SWAPS: usize = 100;
/// After so many swaps memory is looked at first.
const SETTLED: usize = 50;
/// Objects that are destroyed with each swap.
const EACH: usize = 3;
/// Every so many swaps somebody is killed.
const KILL: u64 = 15;
/// Every so many swaps the node that is never killed gives up the lease.
const AWAY: u64 = 10;

/// A small generator: the same swaps for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn swaps() -> usize {
    std::env::var("AEDILE_TEST_SWAPS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(SWAPS)
}

fn cleaner() -> Module {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../host/cli/modules/cleaner.wasm"
    );
    Module {
        name: "cleaner".to_owned(),
        version: "0.1.0".to_owned(),
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

async fn random_swaps(kind: Kind, seed: u64, swaps: usize) {
    let mut random = Random(seed);
    let site = Site::new(kind, 10 + EACH * swaps, 0).await;
    let stop = site.dir().join("stop");
    let path = stop.display().to_string();
    let calm = ["--heartbeat", "1s", "--stop-file", &path];
    let hasty = |name: &str| site.node(name, "2s", &["--heartbeat", "1s"]);
    // The one that is never killed: its memory is watched.
    let mut steady = site.node("steady", "2s", &calm);
    let mut others = [hasty("a"), hasty("b")];
    let operator = Operator::new(&site).await;
    let mut raw = site.raw().await;
    leader(&mut raw, &[&steady, &others[0], &others[1]], BOUND).await;
    let started = started(&operator, "steady").await;
    let cleaner = cleaner();
    let doomed = &site.made.live[10..];
    let mut settled = 0;
    let mut last = cleaner.clone();
    for swap in 0..swaps {
        let ids = &doomed[swap * EACH..(swap + 1) * EACH];
        cluster::destroyed(&mut raw, ids).await;
        last = cleaner.variant(&format!("{swap}"));
        operator
            .deploy(&last, |record| {
                record.schedule.interval_ms = Some(100);
                record.schedule.jitter_ms = Some(0);
                record
                    .config
                    .insert("objects-per-tick".to_owned(), (1 + swap % 3).into());
            })
            .await;
        if random.below(KILL) == 0 {
            let which = random.below(2) as usize;
            others[which].crash();
            others[which] = hasty(["a", "b"][which]);
        }
        if random.below(AWAY) == 0 {
            if stop.exists() {
                std::fs::remove_file(&stop).expect("removed");
            } else {
                std::fs::write(&stop, "*\n").expect("written");
            }
        }
        // Now and then it is given the time to take over.
        if random.below(2) == 0 {
            runs(&operator, &last).await;
        }
        if swap + 1 == SETTLED {
            runs(&operator, &last).await;
            settled = resident(&steady);
        }
    }
    runs(&operator, &last).await;
    drained(&mut raw, BOUND).await;
    let end = resident(&steady);

    // Nothing was lost and nothing done twice.
    let commands = outside::after(&mut raw, 0).await;
    let mut cleaned: BTreeMap<u64, usize> = BTreeMap::new();
    for (command, outcome) in &commands {
        if let (Command::CleanDestroyedObjects { objects }, Ok(_)) = (command, outcome) {
            for object in objects {
                *cleaned.entry(object.0).or_default() += 1;
            }
        }
    }
    for id in doomed {
        assert_eq!(cleaned.get(id), Some(&1), "object {id}");
        let path = site.objects().join(aedile_storage::object_key(*id));
        assert!(!path.exists(), "the bytes of {id} are there");
    }
    assert_eq!(cleaned.len(), doomed.len());
    for id in &site.made.live[..10] {
        let path = site.objects().join(aedile_storage::object_key(*id));
        assert!(path.exists(), "the bytes of the live object {id} are gone");
    }
    assert!(steady.ended().is_none());
    assert_eq!(self::started(&operator, "steady").await, started);
    println!(
        "{kind:?}: {swaps} swaps; resident after {SETTLED}: {} KiB, at the end: {} KiB",
        settled / 1024,
        end / 1024
    );
    if swaps > SETTLED {
        assert!(
            end <= settled + settled / 20,
            "memory grew from {settled} to {end} bytes"
        );
    }
    operator.close().await;
    assert_eq!(steady.stop(), Some(0));
}

/// Wait until the node that is never killed has it.
async fn runs(operator: &Operator, module: &Module) {
    let digest = module.digest();
    operator
        .all(&["steady"], "cleaner", "the new one is there", |plugin| {
            plugin.digest == digest
        })
        .await;
}

async fn started(operator: &Operator, node: &str) -> i64 {
    until("its row", BOUND, async || {
        let told = operator.told().await;
        let (_, status) = told.into_iter().find(|(name, _)| name == node)?;
        Some(status.started)
    })
    .await
    .0
}

/// Resident bytes of a node.
fn resident(node: &Node) -> u64 {
    let path = format!("/proc/{}/status", node.id());
    let status = std::fs::read_to_string(path).expect("memory is read from /proc, which Linux has");
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB"))
        .and_then(|text| text.trim().parse::<u64>().ok())
        .expect("the resident memory")
        * 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn traefik_11119_random_swaps_with_kills_lose_nothing_and_grow_nothing() {
    random_swaps(Kind::Sqlite, 0x5eed_0001, swaps()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_swaps_with_kills_lose_nothing_on_postgres() {
    random_swaps(Kind::Postgres, 0x5eed_0002, swaps().min(SETTLED)).await;
}
