//! Revisions of plugins in the log: of two who write at once, one wins, and the
//! other is told who.
#![allow(clippy::unwrap_used, reason = "a test ends with what went wrong")]

use aedile_log::{Log, LogOptions};
use aedile_runtime::control::{
    self, Action, ControlError, ModuleRef, Record, StoredModule, Written,
};
use aedile_tests_contract::databases::{Database, Kind};
use aedile_tests_contract::for_each_database;
use aedile_tests_contract::logs::{lagging, open, put, until};
use futures_util::future::join_all;

for_each_database!(
    of_many_who_deploy_at_once_one_wins_and_each_other_is_told_who,
    a_revision_says_when_by_the_databases_clock,
    the_same_setting_twice_writes_nothing,
    a_client_that_lags_behind_is_told_of_the_change_that_it_did_not_see,
    no_number_is_left_out_and_nothing_is_written_over,
    what_would_not_be_a_revision_is_not_written,
);

const NAME: &str = "kv-ttl";

fn deployed(who: &str, digit: char) -> Record {
    let module = ModuleRef::Stored(StoredModule {
        digest: digit.to_string().repeat(64),
        size: 7,
        signature: None,
        source: None,
    });
    Record::new(Action::Deploy, module, "1.0.0".to_owned()).by(Action::Deploy, who, "a test")
}

async fn fresh(kind: Kind) -> (Database, Log) {
    let database = Database::create(kind).await.unwrap();
    let log = open(&database.url(), LogOptions::default()).await.unwrap();
    (database, log)
}

/// The newest revision that can be read, as a new client finds it.
async fn newest(database: &Database) -> (u64, Record) {
    let log = open(&database.url(), LogOptions::default()).await.unwrap();
    let found = control::latest(&log.view().state, NAME).unwrap().unwrap();
    log.close().await;
    (found.number, found.record)
}

async fn of_many_who_deploy_at_once_one_wins_and_each_other_is_told_who(kind: Kind) {
    const DEPLOYERS: usize = 4;
    const ROUNDS: u64 = 5;
    let database = Database::create(kind).await.unwrap();
    let mut logs = Vec::new();
    for _ in 0..DEPLOYERS {
        let log = open(&database.url(), LogOptions::default()).await.unwrap();
        logs.push(log);
    }
    for round in 0..ROUNDS {
        for log in &logs {
            // Everybody has seen the round before, and decides from it.
            until("the round before is seen", async || {
                let seen = control::latest(&log.view().state, NAME);
                let number = seen.map_or(0, |found| found.unwrap().number);
                (number == round).then_some(())
            })
            .await;
        }
        let digit = char::from_digit(round as u32, 10).unwrap();
        let ended = join_all(logs.iter().enumerate().map(|(at, log)| async move {
            let mut record = deployed(&format!("deployer-{at}"), digit);
            record.limits.commands = Some(at as u64);
            control::write(log, NAME, round, record).await.unwrap()
        }))
        .await;
        let won: Vec<usize> = (0..DEPLOYERS)
            .filter(|&at| ended[at] == Written::Written { number: round + 1 })
            .collect();
        assert_eq!(won.len(), 1, "{ended:?}");
        let (number, stands) = newest(&database).await;
        assert_eq!(number, round + 1);
        assert_eq!(stands.who, format!("deployer-{}", won[0]));
        for (at, ended) in ended.into_iter().enumerate() {
            match ended {
                Written::Written { .. } => assert_eq!(at, won[0]),
                Written::Lost { winner } => {
                    let winner = winner.unwrap();
                    assert_eq!((winner.number, &winner.record), (number, &stands));
                }
                Written::Unchanged { .. } => panic!("deployer {at} wanted something else"),
            }
        }
    }
    for log in logs {
        log.close().await;
    }
}

async fn a_revision_says_when_by_the_databases_clock(kind: Kind) {
    let (database, log) = fresh(kind).await;
    let before = log.database_now().await.unwrap().0;
    let mut record = deployed("ann", 'a');
    // Whatever the caller says.
    record.at_ms = 7;
    let written = control::write(&log, NAME, 0, record).await.unwrap();
    assert_eq!(written, Written::Written { number: 1 });
    let after = log.database_now().await.unwrap().0;
    let (_, stands) = newest(&database).await;
    assert!((before..=after).contains(&stands.at_ms));
    assert_eq!(
        (stands.who.as_str(), stands.why.as_str()),
        ("ann", "a test")
    );
    log.close().await;
}

async fn the_same_setting_twice_writes_nothing(kind: Kind) {
    let (_database, log) = fresh(kind).await;
    control::write(&log, NAME, 0, deployed("ann", 'a'))
        .await
        .unwrap();
    let index = log.view().index;
    let again = control::write(&log, NAME, 1, deployed("bob", 'a')).await;
    assert_eq!(again.unwrap(), Written::Unchanged { number: 1 });
    assert_eq!(log.view().index, index, "a row was appended");
    // Of what was never there, a removal changes nothing either.
    let mut gone = deployed("bob", 'a');
    gone.removed = true;
    let removed = control::write(&log, "other", 0, gone).await.unwrap();
    assert_eq!(removed, Written::Unchanged { number: 0 });
    assert_eq!(log.view().index, index);
    log.close().await;
}

async fn a_client_that_lags_behind_is_told_of_the_change_that_it_did_not_see(kind: Kind) {
    let (database, log) = fresh(kind).await;
    control::write(&log, NAME, 0, deployed("ann", 'a'))
        .await
        .unwrap();
    let late = open(&database.url(), lagging()).await.unwrap();
    let mut stopped = deployed("ann", 'a');
    stopped.enabled = false;
    let stopped = stopped.by(Action::Disable, "ann", "it deletes too early");
    control::write(&log, NAME, 1, stopped).await.unwrap();
    // It would undo, unseen, what was just done.
    let ended = control::write(&late, NAME, 1, deployed("bob", 'b'))
        .await
        .unwrap();
    let Written::Lost { winner } = ended else {
        panic!("{ended:?}");
    };
    let winner = winner.unwrap();
    assert_eq!((winner.number, winner.record.action), (2, Action::Disable));
    assert_eq!(winner.record.why, "it deletes too early");
    assert_eq!(newest(&database).await.1, winner.record);
    late.close().await;
    log.close().await;
}

async fn no_number_is_left_out_and_nothing_is_written_over(kind: Kind) {
    let (_database, log) = fresh(kind).await;
    let hole = control::write(&log, NAME, 1, deployed("ann", 'a')).await;
    assert!(matches!(
        hole,
        Err(ControlError::NoPrevious { number: 1, .. })
    ));
    control::write(&log, NAME, 0, deployed("ann", 'a'))
        .await
        .unwrap();
    // What somebody else put there stays, and is named.
    let damaged = control::revision_key(NAME, 2);
    log.propose(vec![put(&damaged, "{\"v\":7}")]).await.unwrap();
    let ended = control::write(&log, NAME, 1, deployed("bob", 'b'))
        .await
        .unwrap();
    let Written::Lost { winner } = ended else {
        panic!("{ended:?}");
    };
    let text = winner.unwrap_err().to_string();
    assert!(text.contains("it has the form 7"), "{text}");
    assert_eq!(log.view().state.kv_get(&damaged), Some(&b"{\"v\":7}"[..]));
    // And the next after it can be written.
    let next = control::write(&log, NAME, 2, deployed("bob", 'b'))
        .await
        .unwrap();
    assert_eq!(next, Written::Written { number: 3 });
    log.close().await;
}

async fn what_would_not_be_a_revision_is_not_written(kind: Kind) {
    let (_database, log) = fresh(kind).await;
    let index = log.view().index;
    for name in ["", "../x", "Kv", "a/b", "9", &"a".repeat(65)] {
        let ended = control::write(&log, name, 0, deployed("ann", 'a')).await;
        assert!(matches!(ended, Err(ControlError::Name(_))), "{name}");
    }
    let mut large = deployed("ann", 'a');
    let long = "x".repeat(300_000).into();
    large.config.insert("a".to_owned(), long);
    let ended = control::write(&log, NAME, 0, large).await;
    assert!(matches!(ended, Err(ControlError::TooLarge { .. })));
    assert_eq!(log.view().index, index, "something was appended");
    log.close().await;
}
