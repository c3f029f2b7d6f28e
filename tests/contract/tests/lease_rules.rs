//! What holds for a lease on every database.

use std::time::Duration;

use aedile_lease::{Leadership, LeaseOptions};
use aedile_tests_contract::databases::{Database, Kind, Raw};
use aedile_tests_contract::for_each_database;
use aedile_tests_contract::leases::{
    LIMIT, LeaseRow, Native, Node, TTL, clock, named, options, row, shared_row, wall_ms,
};

for_each_database!(
    a_lease_is_acquired_renewed_and_released,
    one_of_two_leads_and_a_crash_is_taken_over_in_time,
    oban_py_32_one_node_name_is_two_contenders,
    oban_724_of_many_that_start_together_one_leads,
    oban_1488_whoever_was_overtaken_steps_down_at_the_next_renewal,
    river_1213_a_release_of_an_older_term_changes_nothing,
    sliceworkz_176_each_acquisition_has_a_new_epoch,
    synapse_406_epochs_do_not_repeat_when_row_or_table_go,
    client_go_448_a_lease_that_lapsed_long_ago_is_taken_at_once,
    shedlock_231_the_expiry_in_the_row_counts_whatever_the_ttl_is,
    juju_6940_an_expiry_from_a_clock_that_ran_ahead_leaves_no_vacancy,
    named_leases_have_leaders_of_their_own,
    tables_and_rows_that_are_there_are_used_as_they_are,
    a_native_node_is_waited_for,
    a_native_node_is_taken_over_from_and_regains_after_us,
    a_keeper_that_was_never_eligible_stops_without_a_trace,
    kubernetes_71490_a_lease_is_released_after_its_ticks_and_not_before,
    step_down_leaves_the_lease_alone_for_a_while,
    cockroach_85541_a_row_that_others_lock_ends_the_term_in_time,
);

async fn database(kind: Kind) -> (Database, String, Raw) {
    let database = Database::create(kind).await.expect("a database");
    let url = database.url();
    let raw = database.raw().await.expect("a connection");
    (database, url, raw)
}

async fn seeded(kind: Kind, holder: &str, epoch: i64, expires_at_ms: i64) -> (Database, Raw) {
    let (database, _, mut raw) = database(kind).await;
    raw.make_tables().await.expect("tables");
    put(&mut raw, holder, epoch, expires_at_ms).await;
    (database, raw)
}

async fn put(raw: &mut Raw, holder: &str, epoch: i64, expires_at_ms: i64) {
    let sql = format!(
        "UPDATE meta_lease SET holder = '{holder}', epoch = {epoch}, \
         expires_at_ms = {expires_at_ms} WHERE id = 0"
    );
    raw.run(&sql).await.expect("an update");
}

/// Wait until the row is as wanted.
async fn until_row(raw: &mut Raw, what: &str, wanted: impl Fn(&LeaseRow) -> bool) -> LeaseRow {
    let clock = clock();
    let end = clock.boot() + LIMIT;
    loop {
        let now = shared_row(raw).await;
        match now {
            Some(row) if wanted(&row) => return row,
            _ => assert!(clock.boot() < end, "no {what}: {now:?}"),
        }
        clock.sleep(Duration::from_millis(5)).await;
    }
}

async fn a_lease_is_acquired_renewed_and_released(kind: Kind) {
    let (_database, url, mut raw) = database(kind).await;
    let mut node = Node::start(options(&url, "a"));
    let (term, authority) = node.term().await;
    assert_eq!(term.epoch, 1);
    assert_eq!(term.holder, node.keeper().holder());
    let left = authority.left();
    assert!(left <= TTL - TTL / 10, "{left:?}");
    let first = shared_row(&mut raw).await.expect("a row");
    assert_eq!(
        (first.holder.as_str(), first.epoch),
        (term.holder.as_str(), 1)
    );
    let expiry = first.expires_at_ms - wall_ms();
    assert!((0..=2_000).contains(&expiry), "Unix milliseconds: {expiry}");

    let renewed = until_row(&mut raw, "renewal", |row| {
        row.expires_at_ms > first.expires_at_ms
    })
    .await;
    assert_eq!(renewed.epoch, 1);

    node.hand_over(&term).await;
    assert!(!authority.holds());
    let released = shared_row(&mut raw).await.expect("a row");
    let expected = LeaseRow {
        holder: term.holder,
        epoch: 1,
        expires_at_ms: 0,
    };
    assert_eq!(released, expected, "holder and epoch stay");
    node.stop().await;
}

async fn one_of_two_leads_and_a_crash_is_taken_over_in_time(kind: Kind) {
    let (_database, url, mut raw) = database(kind).await;
    let mut leader = Node::start(options(&url, "a"));
    let (term, authority) = leader.term().await;
    let mut other = Node::start(options(&url, "b"));
    other.following().await;
    let Leadership::Follower { seen: Some(seen) } = other.now() else {
        panic!("a follower");
    };
    assert_eq!((seen.holder, seen.epoch), (term.holder, 1));
    assert!(!seen.native);

    let crash = other.boot();
    drop(leader);
    assert!(!authority.holds());
    let (next, _) = other.term().await;
    assert_eq!(next.epoch, 2);
    let took = other.boot().since(crash);
    assert!(took <= TTL + TTL / 4, "{took:?}");
    assert_eq!(shared_row(&mut raw).await.expect("a row").epoch, 2);
    other.stop().await;
}

async fn oban_py_32_one_node_name_is_two_contenders(kind: Kind) {
    let (_database, url, _) = database(kind).await;
    let mut one = Node::start(options(&url, "same"));
    let (first, _) = one.term().await;
    let mut two = Node::start(options(&url, "same"));
    assert_ne!(one.keeper().holder(), two.keeper().holder());
    two.following().await;
    assert!(one.now().holding().is_some());
    one.stop().await;
    let (term, _) = two.term().await;
    assert!(term.epoch > first.epoch);
    two.stop().await;
}

async fn oban_724_of_many_that_start_together_one_leads(kind: Kind) {
    let (_database, url, _) = database(kind).await;
    let mut nodes: Vec<Node> = (0..8).map(|_| Node::start(options(&url, "n"))).collect();
    let mut leaders = 0;
    for node in &mut nodes {
        let settled = node
            .until("answer", |now| {
                now.holding().is_some()
                    || matches!(now, Leadership::Follower { seen: Some(seen) }
                        if !seen.expires_in.is_zero())
            })
            .await;
        leaders += usize::from(settled.holding().is_some());
    }
    assert_eq!(leaders, 1);
    for node in nodes {
        node.stop().await;
    }
}

async fn oban_1488_whoever_was_overtaken_steps_down_at_the_next_renewal(kind: Kind) {
    let (_database, url, mut raw) = database(kind).await;
    let mut node = Node::start(options(&url, "a"));
    let (_, authority) = node.term().await;
    put(&mut raw, "thief", 2, wall_ms() + 1_000).await;
    node.lost().await;
    assert!(!authority.holds());
    // Once the other's lease has lapsed it leads again: under an epoch of its own.
    let (term, _) = node.term().await;
    assert_eq!(term.epoch, 3);
    node.stop().await;
}

async fn river_1213_a_release_of_an_older_term_changes_nothing(kind: Kind) {
    let (_database, url, mut raw) = database(kind).await;
    let mut node = Node::start(options(&url, "a"));
    let (first, _) = node.term().await;
    put(&mut raw, "thief", 2, 0).await;
    node.until("second term", |now| {
        now.holding().is_some_and(|(term, _)| term.epoch == 3)
    })
    .await;
    let (second, authority) = node.term().await;
    node.keeper().release(&first).await;
    assert!(authority.holds());
    let row = shared_row(&mut raw).await.expect("a row");
    assert_eq!((row.holder, row.epoch), (second.holder, 3));
    assert!(row.expires_at_ms > 0);
    node.stop().await;
}

async fn sliceworkz_176_each_acquisition_has_a_new_epoch(kind: Kind) {
    let (_database, url, _) = database(kind).await;
    let mut node = Node::start(options(&url, "a"));
    for epoch in 1..=3 {
        let (term, _) = node.term().await;
        assert_eq!(term.epoch, epoch);
        node.hand_over(&term).await;
        node.fit();
    }
    node.stop().await;
}

async fn synapse_406_epochs_do_not_repeat_when_row_or_table_go(kind: Kind) {
    let (_database, url, mut raw) = database(kind).await;
    let mut node = Node::start(options(&url, "a"));
    node.term().await;
    for (harm, epoch) in [
        ("DELETE FROM meta_lease", 2),
        ("DROP TABLE meta_lease", 3),
        // A PicoMQ node came first and began to count anew.
        (
            "UPDATE meta_lease SET holder = '', epoch = 0, expires_at_ms = 0",
            4,
        ),
    ] {
        raw.run(harm).await.expect("harm");
        node.until("next term", |now| {
            now.holding().is_some_and(|(term, _)| term.epoch == epoch)
        })
        .await;
    }
    node.stop().await;
}

async fn client_go_448_a_lease_that_lapsed_long_ago_is_taken_at_once(kind: Kind) {
    let (_database, _raw) = seeded(kind, "gone", 41, wall_ms() - 3_600_000).await;
    let mut node = Node::start(LeaseOptions::new(_database.url(), "a"));
    let start = node.boot();
    let (term, _) = node.term().await;
    assert_eq!(term.epoch, 42);
    let took = node.boot().since(start);
    assert!(took < Duration::from_secs(1), "{took:?} with a TTL of 10 s");
    node.stop().await;
}

async fn shedlock_231_the_expiry_in_the_row_counts_whatever_the_ttl_is(kind: Kind) {
    let expiry = wall_ms() + 4_000;
    let (database, _raw) = seeded(kind, "longer", 5, expiry).await;
    let mut node = Node::start(options(&database.url(), "a"));
    let (term, _) = node.term().await;
    assert_eq!(term.epoch, 6);
    let after = wall_ms() - expiry;
    assert!((0..=500).contains(&after), "{after} ms after the expiry");
    node.stop().await;
}

async fn juju_6940_an_expiry_from_a_clock_that_ran_ahead_leaves_no_vacancy(kind: Kind) {
    let (_database, url, mut raw) = database(kind).await;
    let mut first = Node::start(named(&url, "a", "job"));
    first.term().await;
    first.stop().await;
    let tomorrow = wall_ms() + 86_400_000;
    raw.run(&format!(
        "UPDATE aedile_lease SET expires_at_ms = {tomorrow}"
    ))
    .await
    .expect("an update");
    let mut node = Node::start(named(&url, "b", "job"));
    let start = node.boot();
    let (term, _) = node.term().await;
    let took = node.boot().since(start);
    assert_eq!(term.epoch, 2);
    assert!(took >= TTL, "it might have been alive: {took:?}");
    assert!(took <= TTL + TTL / 2, "{took:?}");
    node.stop().await;
}

async fn named_leases_have_leaders_of_their_own(kind: Kind) {
    let (_database, url, mut raw) = database(kind).await;
    let mut one = Node::start(named(&url, "a", "one"));
    let mut two = Node::start(named(&url, "b", r"it's \ $2"));
    let (term, _) = one.term().await;
    let (other, _) = two.term().await;
    assert_eq!((term.epoch, other.epoch), (1, 1));
    let found = row(&mut raw, "aedile_lease WHERE name = 'it''s \\ $2'").await;
    assert_eq!(found.expect("a row").holder, other.holder);
    one.hand_over(&term).await;
    assert!(two.now().holding().is_some());
    one.stop().await;
    two.stop().await;
}

async fn tables_and_rows_that_are_there_are_used_as_they_are(kind: Kind) {
    let (database, mut raw) = seeded(kind, "node-1-17", 9, 0).await;
    let mut node = Node::start(options(&database.url(), "a"));
    let (term, _) = node.term().await;
    assert_eq!(term.epoch, 10);
    let rows = raw.integers("SELECT count(*) FROM meta_lease").await;
    assert_eq!(rows.expect("rows"), [1]);
    node.stop().await;
}

async fn a_native_node_is_waited_for(kind: Kind) {
    let (database, raw) = seeded(kind, "", 0, 0).await;
    let mut native = Native::new(raw, "node-1-1796191747112");
    assert!(native.acquire(TTL).await);
    let mut node = Node::start(options(&database.url(), "a"));
    let start = node.boot();
    // It renews for as long as two leases would last.
    while node.boot().since(start) < 2 * TTL {
        assert!(native.renew(1, TTL).await, "nobody took it");
        let clock = clock();
        let _ = clock
            .timeout(
                TTL / 4,
                node.until("native holder", |now| now.holding().is_some()),
            )
            .await;
        assert!(node.now().holding().is_none());
    }
    let Leadership::Follower { seen: Some(seen) } = node.now() else {
        panic!("a follower: {:?}", node.now());
    };
    assert!(seen.native);
    // It crashes.
    assert_eq!(node.term().await.0.epoch, 2);
    node.stop().await;
}

async fn a_native_node_is_taken_over_from_and_regains_after_us(kind: Kind) {
    let (database, raw) = seeded(kind, "", 0, 0).await;
    let mut native = Native::new(raw, "node-1-1796191747112");
    assert!(native.acquire(Duration::from_secs(10)).await);
    let mut taking = options(&database.url(), "a");
    taking.take_over = true;
    let mut node = Node::idle(taking.clone());
    let mut watching = Node::start(options(&database.url(), "b"));
    watching.following().await;
    assert!(native.renew(1, Duration::from_secs(10)).await, "a idles");
    node.fit();
    let (term, _) = node.term().await;
    assert_eq!(term.epoch, 2);
    assert!(!native.renew(1, Duration::from_secs(10)).await, "refused");
    assert!(!native.acquire(Duration::from_secs(10)).await, "it is held");
    watching.stop().await;
    // Another of ours is never taken from.
    let mut second = Node::start(taking);
    second.following().await;
    assert!(node.now().holding().is_some());
    second.stop().await;
    node.hand_over(&term).await;
    assert!(native.acquire(Duration::from_secs(10)).await, "we are gone");
    assert!(native.renew(3, Duration::from_secs(10)).await);
    node.stop().await;
}

async fn a_keeper_that_was_never_eligible_stops_without_a_trace(kind: Kind) {
    let (_database, url, mut raw) = database(kind).await;
    Node::idle(options(&url, "a")).stop().await;
    let tables = match kind {
        Kind::Sqlite => "SELECT count(*) FROM sqlite_master",
        Kind::Postgres => "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'",
    };
    assert_eq!(raw.integers(tables).await.expect("tables"), [0]);
}

async fn kubernetes_71490_a_lease_is_released_after_its_ticks_and_not_before(kind: Kind) {
    let (_database, url, mut raw) = database(kind).await;
    let mut node = Node::start(options(&url, "a"));
    let (term, authority) = node.term().await;
    let mut other = Node::start(options(&url, "b"));
    other.following().await;
    node.unfit();
    node.lost().await;
    // A tick that goes on for ever: the lease lapses, nothing releases it.
    assert!(authority.holds(), "what runs may finish");
    let held = shared_row(&mut raw).await.expect("a row");
    let (next, _) = other.term().await;
    assert!(wall_ms() > held.expires_at_ms, "not before it lapsed");
    assert!(!authority.holds());
    node.keeper().release(&term).await;
    assert!(other.now().holding().is_some());
    let row = shared_row(&mut raw).await.expect("a row");
    assert_eq!((row.holder, row.epoch), (next.holder, 2));
    other.stop().await;
    node.stop().await;
}

async fn step_down_leaves_the_lease_alone_for_a_while(kind: Kind) {
    let (_database, url, _) = database(kind).await;
    let mut node = Node::start(options(&url, "a"));
    let (term, _) = node.term().await;
    let cool_down = Duration::from_secs(1);
    let start = node.boot();
    node.keeper().step_down(&term, cool_down).await;
    let now = node.now();
    assert!(matches!(now, Leadership::Ineligible { .. }), "{now:?}");
    let (next, _) = node.term().await;
    assert_eq!(next.epoch, 2);
    assert!(node.boot().since(start) >= cool_down);
    node.stop().await;
}

async fn cockroach_85541_a_row_that_others_lock_ends_the_term_in_time(kind: Kind) {
    let (_database, url, mut raw) = database(kind).await;
    let mut node = Node::start(options(&url, "a"));
    let (_, authority) = node.term().await;
    let lock = match kind {
        Kind::Sqlite => "BEGIN IMMEDIATE",
        Kind::Postgres => "BEGIN; SELECT * FROM meta_lease FOR UPDATE",
    };
    raw.run(lock).await.expect("a lock");
    let (waited, shown) = node.overrun(&authority).await;
    let target = Duration::from_millis(50);
    assert!(waited <= target && shown <= target, "{waited:?} {shown:?}");
    let now = node.now();
    assert!(matches!(now, Leadership::Unreachable { .. }), "{now:?}");
    raw.run("ROLLBACK").await.expect("unlocked");
    assert_eq!(node.term().await.0.epoch, 2);
    node.stop().await;
}
