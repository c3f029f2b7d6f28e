//! Ticks that end when the next version is already there.

use std::sync::Arc;
use std::time::Duration;

use aedile_clock::SystemClock;

use super::probation::Verdict;
use super::{Book, Ticked};
use crate::entropy::Entropy;
use crate::schedule::{Failure, Policy};
use crate::source::{Loaded, PluginSet};
use crate::status::PluginState;
use crate::stopfile::Stops;
use crate::tests::cluster::kv_ttl;

fn set(loaded: &Arc<Loaded>) -> PluginSet {
    PluginSet {
        plugins: [(loaded.name().to_owned(), loaded.clone())].into(),
        ..PluginSet::default()
    }
}

/// Two revisions of a plugin, the second with another configuration, and a book
/// in which the first ticks while the second is installed.
async fn overtaken() -> (Book, [Arc<Loaded>; 2]) {
    let mut loaded = Loaded::clone(&*kv_ttl().await);
    loaded.revision = Some(1);
    let one = Arc::new(loaded.clone());
    loaded.revision = Some(2);
    loaded.config.push(' ');
    let two = Arc::new(loaded);
    let policy = Policy {
        failures: 1,
        quarantine: Duration::from_secs(60),
        reject_wait: Duration::from_secs(60),
    };
    let book = Book::new(Arc::new(SystemClock), policy);
    book.install(&set(&one));
    book.began(&one);
    book.install(&set(&two));
    (book, [one, two])
}

fn entropy() -> Entropy {
    Entropy::new(Some(1))
}

#[tokio::test]
async fn a_good_tick_of_the_last_revision_says_nothing_of_the_next() {
    let (book, [one, two]) = overtaken().await;
    let good = Ticked::so("", None, false);
    book.ended(&one, &good, &entropy());
    assert_eq!(book.judge(&one, &good, 2), Verdict::Good);
    let bad = Ticked::so("why", Some(Failure::Fault), false);
    assert_eq!(book.judge(&two, &bad, 2), Verdict::Open);
    assert_eq!(
        book.judge(&two, &bad, 2),
        Verdict::Bad("why".to_owned()),
        "it never ticked well"
    );
}

#[tokio::test]
async fn a_failed_tick_of_the_last_revision_costs_the_next_nothing() {
    let (book, [one, two]) = overtaken().await;
    let bad = Ticked::so("why", Some(Failure::Fault), false);
    book.ended(&one, &bad, &entropy());
    assert_eq!(book.judge(&one, &bad, 1), Verdict::Open, "it is gone");
    assert_eq!(book.not_before(two.name()), None);
    let status = book.status(&set(&two), true, &Stops::default());
    assert_eq!(status[0].state, PluginState::Waiting, "{status:?}");
    assert_eq!(status[0].failures, 0);
    // Its own failures are its own.
    book.ended(&two, &bad, &entropy());
    assert_eq!(book.judge(&two, &bad, 1), Verdict::Bad("why".to_owned()));
    assert!(book.not_before(two.name()).is_some());
}
