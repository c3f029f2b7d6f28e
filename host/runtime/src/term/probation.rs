//! The first ticks of a revision: whether it is a good one, and what happens if
//! it is not.
//!
//! The first tick that ends well marks the revision as good, once for the whole
//! cluster; later failures are the failure policy's. One whose first ticks all
//! fail is taken back, by a revision like any other.

use aedile_log::Answer;
use aedile_state::{Command, State};

use super::Ticked;
use crate::backend::{Backend, Trouble};
use crate::control::{self, Action, ModuleRef, Record, Revision, Written};
use crate::guard::Guards;
use crate::schedule::Failure;
use crate::source::SELF;

/// Where it is noted that a revision has ticked well.
const GOOD: &str = "aedile/plugin-good/";

/// Most revisions that are looked through for a good one.
const DEPTH: u64 = 1000;

/// What a tick means for its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is not decided yet.
    Open,
    /// It ticks well.
    Good,
    /// Its first ticks all failed, the last one with this error.
    Bad(String),
}

/// How the first ticks of a revision went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Probation {
    good: bool,
    failures: u32,
}

impl Probation {
    /// Take note of a tick. After so many failures before the first good one the
    /// revision is bad.
    pub(crate) fn judge(&mut self, ticked: &Ticked, after: u32) -> Verdict {
        match ticked.end.failure {
            None if ticked.end.lost => Verdict::Open,
            None => {
                self.good = true;
                Verdict::Good
            }
            // A store that throttles is not the version's fault.
            Some(Failure::Retry(_)) => Verdict::Open,
            Some(Failure::Reject | Failure::Fault) => {
                self.failures = self.failures.saturating_add(1);
                if self.good || after == 0 || self.failures < after {
                    return Verdict::Open;
                }
                Verdict::Bad(ticked.end.text.clone())
            }
        }
    }
}

fn good_key(name: &str, number: u64) -> String {
    format!("{GOOD}{name}/{number:010}")
}

/// Whether a revision is known to tick well.
pub(crate) fn is_good(state: &State, name: &str, number: u64) -> bool {
    state.kv_get(&good_key(name, number)).is_some()
}

/// Note that a revision ticks well, unless that is known.
pub(crate) async fn mark_good<B: Backend>(guards: &Guards<B>, name: &str, number: u64) {
    if is_good(&guards.backend.latest().state, name, number) {
        return;
    }
    let mark = Command::PutKvIfAbsent {
        key: good_key(name, number),
        value: b"1".to_vec(),
    };
    match guards.propose(control_self(), vec![mark]).await {
        Ok(answers) if !answers.contains(&Answer::Unknown) => {
            tracing::info!(plugin = name, revision = number, "the revision ticks well");
        }
        Ok(_) | Err(Trouble::LeaseLost) => {}
        Err(Trouble::Unavailable(reason)) => {
            tracing::warn!(plugin = name, revision = number, %reason, "not noted that the revision ticks well");
        }
    }
}

/// Who proposes it, where a dry run would tell.
fn control_self() -> &'static str {
    "aedile"
}

/// A revision to go back to: the newest older one that ticked well, else the
/// newest older one that was to run and was not itself taken back. With neither,
/// what is built in, if there is something.
pub(crate) fn before(state: &State, name: &str, bad: &Revision, builtin: bool) -> Option<Record> {
    let mut second: Option<Revision> = None;
    let mut taken_back = false;
    for number in (1..bad.number)
        .rev()
        .take(usize::try_from(DEPTH).unwrap_or(usize::MAX))
    {
        let Some(Ok(revision)) = control::revision(state, name, number) else {
            continue;
        };
        let record = &revision.record;
        if record.removed {
            // Nothing older than a removal comes back.
            return second.map(|revision| back_to(&revision));
        }
        let skip = std::mem::replace(
            &mut taken_back,
            record.action == Action::Rollback && record.who.starts_with(SELF),
        );
        let fit = record.enabled && record.canary == 0 && !record.same_setting(&plain(bad));
        if !fit || skip {
            continue;
        }
        if is_good(state, name, number) {
            return Some(back_to(&revision));
        }
        if second.is_none() {
            second = Some(revision);
        }
    }
    if let Some(second) = second {
        return Some(back_to(&second));
    }
    builtin.then(|| {
        let mut record = Record::new(Action::Rollback, ModuleRef::Embedded, String::new());
        // As this node is configured, as if nothing had been deployed.
        record.removed = true;
        record
    })
}

/// The setting without its trial.
fn plain(revision: &Revision) -> Record {
    Record {
        canary: 0,
        ..revision.record.clone()
    }
}

fn back_to(revision: &Revision) -> Record {
    Record {
        of: Some(revision.number),
        ..plain(revision)
    }
}

/// Take a revision back, or let it take over, as this node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reviser<'a> {
    pub(crate) log: &'a aedile_log::Log,
    pub(crate) node: &'a str,
    pub(crate) name: &'a str,
    /// The binary has a module of this name.
    pub(crate) builtin: bool,
}

impl Reviser<'_> {
    /// The newest revision, if it is this one: anything newer decides by itself.
    fn newest(&self, number: u64) -> Option<Revision> {
        let state = &self.log.view().state;
        let newest = control::latest(state, self.name)?.ok()?;
        (newest.number == number).then_some(newest)
    }

    /// Take it back.
    pub(crate) async fn roll_back(&self, number: u64, why: &str) {
        let Some(bad) = self.newest(number) else {
            return;
        };
        // What it went back to by itself stays: two would take turns for ever.
        if bad.record.action == Action::Rollback && bad.record.who.starts_with(SELF) {
            return;
        }
        let state = self.log.view().state.clone();
        let Some(record) = before(&state, self.name, &bad, self.builtin) else {
            tracing::error!(
                plugin = self.name,
                revision = number,
                error = why,
                "the first ticks of the revision fail, and there is none to go back to"
            );
            return;
        };
        self.write(number, record, Action::Rollback, why).await;
    }

    /// Let a revision on trial take over.
    pub(crate) async fn promote(&self, number: u64, why: &str) {
        let Some(canary) = self.newest(number) else {
            return;
        };
        self.write(number, back_to(&canary), Action::Promote, why)
            .await;
    }

    async fn write(&self, number: u64, record: Record, action: Action, why: &str) {
        let who = format!("{SELF}{}", self.node);
        let record = record.by(action, &who, why);
        let (plugin, of) = (self.name, record.of);
        match control::write(self.log, self.name, number, record).await {
            Ok(Written::Written { number: next }) => {
                tracing::warn!(plugin, revision = number, %action, of, next, why, "revised by itself");
            }
            Ok(Written::Lost { .. } | Written::Unchanged { .. }) => {}
            Err(error) => {
                let error = crate::backend::chain(&error);
                tracing::warn!(plugin, revision = number, %action, %error, "not revised");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{StoredModule, revision_key};

    fn tick(failure: Option<Failure>, lost: bool) -> Ticked {
        Ticked::so("why", failure, lost)
    }

    #[test]
    fn only_failures_before_the_first_good_tick_count() {
        let (good, bad) = (tick(None, false), tick(Some(Failure::Fault), false));
        let throttled = tick(Some(Failure::Retry(std::time::Duration::ZERO)), false);
        let mut probation = Probation::default();
        assert_eq!(probation.judge(&bad, 3), Verdict::Open);
        assert_eq!(probation.judge(&throttled, 3), Verdict::Open);
        assert_eq!(probation.judge(&tick(None, true), 3), Verdict::Open);
        assert_eq!(probation.judge(&bad, 3), Verdict::Open);
        assert_eq!(probation.judge(&bad, 3), Verdict::Bad("why".to_owned()));
        let mut probation = Probation::default();
        assert_eq!(probation.judge(&good, 3), Verdict::Good);
        for _ in 0..10 {
            assert_eq!(probation.judge(&bad, 3), Verdict::Open);
        }
        let mut never = Probation::default();
        for _ in 0..10 {
            assert_eq!(never.judge(&bad, 0), Verdict::Open);
        }
    }

    /// A history of revisions, and which of them ticked well.
    #[derive(Default)]
    struct History {
        state: State,
        newest: u64,
    }

    impl History {
        fn add(&mut self, digest: char, good: bool, change: impl FnOnce(&mut Record)) {
            let module = ModuleRef::Stored(StoredModule {
                digest: digest.to_string().repeat(64),
                size: 1,
                signature: None,
                source: None,
            });
            let mut record = Record::new(Action::Deploy, module, "1.0.0".to_owned());
            change(&mut record);
            self.newest += 1;
            let mut value = serde_json::to_value(&record).expect("JSON");
            value["v"] = 1.into();
            self.put(revision_key("kv", self.newest), value.to_string());
            if good {
                self.put(good_key("kv", self.newest), "1".to_owned());
            }
        }

        fn put(&mut self, key: String, value: String) {
            let value = value.into_bytes();
            let _ = self.state.apply(&Command::PutKv { key, value });
        }

        /// What the newest is taken back to.
        fn before(&self, builtin: bool) -> Option<Record> {
            let bad = control::latest(&self.state, "kv")?.ok()?;
            before(&self.state, "kv", &bad, builtin)
        }

        fn of(&self) -> Option<u64> {
            self.before(false)?.of
        }
    }

    #[test]
    fn it_goes_back_to_the_newest_good_one() {
        let mut history = History::default();
        history.add('a', true, |_| {});
        history.add('b', false, |_| {});
        history.add('c', false, |_| {});
        assert_eq!(history.of(), Some(1), "the second never ticked well");
        history.add('d', true, |_| {});
        history.add('e', false, |record| record.canary = 3);
        history.add('f', false, |_| {});
        assert_eq!(history.of(), Some(4));
        assert_eq!(history.before(false).map(|record| record.canary), Some(0));
    }

    #[test]
    fn without_a_good_one_it_is_the_newest_that_was_not_taken_back() {
        let mut history = History::default();
        history.add('a', false, |_| {});
        history.add('b', false, |_| {});
        history.add('a', false, |record| {
            record.action = Action::Rollback;
            record.who = format!("{SELF}node");
        });
        history.add('c', false, |_| {});
        // Neither the second, which was taken back, nor a rest.
        assert_eq!(history.of(), Some(3));
        history.add('d', false, |record| record.enabled = false);
        history.add('e', false, |_| {});
        assert_eq!(history.of(), Some(4));
    }

    #[test]
    fn nothing_older_than_a_removal_comes_back_and_the_same_never() {
        let mut history = History::default();
        history.add('a', true, |_| {});
        history.add('a', false, |record| record.removed = true);
        history.add('b', false, |_| {});
        assert_eq!(history.before(true), None);
        let mut history = History::default();
        history.add('a', true, |_| {});
        history.add('a', false, |record| record.who = "another".to_owned());
        assert_eq!(history.before(false), None);
        let back = history.before(true).expect("what is built in");
        assert!(back.removed && back.module == ModuleRef::Embedded);
    }
}
