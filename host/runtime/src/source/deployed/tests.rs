//! Which revision runs: the rules, over modules that were really loaded.

use std::sync::Arc;

use aedile_clock::BootInstant;
use aedile_engine::Grant;

use super::entry::{Base, Choice, Entry, Failed, Verdict, choose};
use crate::control::{Action, ModuleRef, Record, StoredModule};
use crate::source::Loaded;
use crate::tests::cluster::kv_ttl;

const NOW: BootInstant = BootInstant::from_boot(std::time::Duration::from_secs(100));

fn later(seconds: u64) -> BootInstant {
    NOW + std::time::Duration::from_secs(seconds)
}

struct Rules {
    loaded: Arc<Loaded>,
    /// The newest first.
    entries: Vec<Entry>,
}

impl Rules {
    async fn new() -> Self {
        Self {
            loaded: kv_ttl().await,
            entries: Vec::new(),
        }
    }

    fn wants(&self) -> Vec<Grant> {
        self.loaded.manifest().grants.clone()
    }

    /// The next revision: everything that it wants is granted, unless changed.
    fn add(&mut self, verdict: Verdict, change: impl FnOnce(&mut Record)) {
        let module = ModuleRef::Stored(StoredModule {
            digest: "00".repeat(32),
            size: 1,
            signature: None,
            source: None,
        });
        let mut record = Record::new(Action::Deploy, module, "1.0.0".to_owned());
        record.grants = self.wants().iter().map(ToString::to_string).collect();
        change(&mut record);
        let entry = Entry {
            number: self.entries.len() as u64 + 1,
            record: Ok(record),
            verdict,
        };
        self.entries.insert(0, entry);
    }

    fn ready(&mut self, change: impl FnOnce(&mut Record)) {
        self.add(Verdict::Ready(self.loaded.clone()), change);
    }

    fn choose(&self, builtin: bool) -> Choice {
        let wants = self.wants();
        choose(
            &self.entries,
            NOW,
            builtin.then_some(wants.as_slice()),
            true,
        )
    }

    fn base(&self) -> Base {
        self.choose(false).base
    }
}

fn refused() -> Verdict {
    Verdict::Refused("broken".to_owned())
}

fn failed(again: BootInstant) -> Verdict {
    Verdict::Failed(Failed {
        reason: "throttled".to_owned(),
        passing: true,
        tries: 1,
        again,
    })
}

#[tokio::test]
async fn the_newest_that_can_run_runs() {
    let mut rules = Rules::new().await;
    assert_eq!(rules.base(), Base::Nothing);
    assert_eq!(rules.choose(true).base, Base::Embedded);
    rules.ready(|_| {});
    assert_eq!(rules.base(), Base::Entry(0));
    rules.add(refused(), |_| {});
    rules.add(Verdict::NeedsApproval(Vec::new()), |_| {});
    rules.add(failed(later(1)), |_| {});
    assert_eq!(rules.base(), Base::Entry(3));
    // A failed one that is due is tried again, and what runs goes on.
    rules.entries[0].verdict = failed(NOW);
    let choice = rules.choose(false);
    assert_eq!((choice.base, choice.load), (Base::Entry(3), vec![0]));
    // One of which nothing is known is loaded before anything older is.
    rules.add(Verdict::Unknown, |_| {});
    let choice = rules.choose(false);
    assert_eq!((choice.base, choice.load), (Base::Wait, vec![0]));
    rules.entries[0].verdict = Verdict::Compiling;
    let choice = rules.choose(false);
    assert_eq!((choice.base, choice.load), (Base::Wait, vec![]));
}

#[tokio::test]
async fn what_cannot_be_read_stops_nothing() {
    let mut rules = Rules::new().await;
    rules.ready(|_| {});
    rules.add(Verdict::Unknown, |_| {});
    rules.entries[0].record = Err("a later form".to_owned());
    let choice = rules.choose(false);
    assert_eq!((choice.base, choice.load), (Base::Entry(1), vec![]));
}

#[tokio::test]
async fn nothing_older_than_a_removal_comes_back() {
    let mut rules = Rules::new().await;
    rules.ready(|_| {});
    rules.ready(|record| record.removed = true);
    assert_eq!(rules.base(), Base::Nothing);
    assert_eq!(rules.choose(true).base, Base::Embedded);
    rules.add(refused(), |_| {});
    assert_eq!(rules.base(), Base::Nothing);
    assert_eq!(rules.choose(true).base, Base::Nothing);
    rules.ready(|_| {});
    assert_eq!(rules.base(), Base::Entry(0));
}

#[tokio::test]
async fn what_was_taken_back_stays_taken_back() {
    let mut rules = Rules::new().await;
    rules.ready(|_| {});
    rules.add(Verdict::NeedsApproval(Vec::new()), |record| {
        record.action = Action::Revoke;
        record.grants = vec!["state".to_owned(), "metrics".to_owned()];
    });
    let choice = rules.choose(true);
    assert_eq!(choice.base, Base::Nothing, "the binary's own wants it too");
    let ruled_out: Vec<usize> = choice.ruled_out.iter().map(|(place, _)| *place).collect();
    assert_eq!(ruled_out, [1]);
    // Also through a later deploy that cannot run.
    rules.add(refused(), |_| {});
    assert_eq!(rules.base(), Base::Nothing);
    // Granted again, it runs again.
    rules.ready(|record| record.action = Action::Grant);
    assert_eq!(rules.base(), Base::Entry(0));
}

#[tokio::test]
async fn a_trial_runs_beside_and_is_never_fallen_back_to() {
    let mut rules = Rules::new().await;
    rules.ready(|_| {});
    rules.add(Verdict::Unknown, |record| record.canary = 5);
    let choice = rules.choose(false);
    assert_eq!(
        (choice.base, choice.trial, choice.load),
        (Base::Entry(1), false, vec![0])
    );
    rules.entries[0].verdict = Verdict::Ready(rules.loaded.clone());
    let choice = rules.choose(false);
    assert_eq!((choice.base, choice.trial), (Base::Entry(1), true));
    // Without anything to run beside, it stands alone.
    let newest = rules.entries.remove(0);
    rules.entries = vec![newest];
    let choice = rules.choose(false);
    assert_eq!((choice.base, choice.trial), (Base::Nothing, true));
    // Overtaken before it was decided, it is out.
    rules.add(refused(), |_| {});
    let choice = rules.choose(false);
    assert_eq!((choice.base, choice.trial), (Base::Nothing, false));
}
