//! A lease on a PostgreSQL that hangs, refuses, forgets or takes no writes.

use std::time::Duration;

use aedile_lease::{Leadership, LeaseOptions};
use aedile_tests_contract::databases::{Cluster, Database, Kind, Raw};
use aedile_tests_contract::leases::{
    LIMIT, Node, Proxy, TTL, clock, options, row, shared_row, wall_ms,
};

/// How long after its end an authority may be seen to hold, or a term be shown.
const TARGET: Duration = Duration::from_millis(50);

async fn database() -> (Database, Raw) {
    let database = Database::create(Kind::Postgres).await.expect("a database");
    let raw = database.raw().await.expect("a connection");
    (database, raw)
}

/// A proxy before the database's server, and a contender's options through it.
async fn by_proxy(database: &Database, node: &str) -> (Proxy, LeaseOptions) {
    let (host, port) = database.address().expect("a server");
    let proxy = Proxy::start(&host, port).await.expect("a proxy");
    let url = database.url_by("127.0.0.1", proxy.port()).expect("a URL");
    (proxy, options(&url, node))
}

/// Wait for a condition that a statement shows.
async fn until(raw: &mut Raw, what: &str, sql: &str, wanted: impl Fn(&[i64]) -> bool) {
    let clock = clock();
    let end = clock.boot() + LIMIT;
    loop {
        let found = raw.integers(sql).await.expect("integers");
        if wanted(&found) {
            return;
        }
        assert!(clock.boot() < end, "no {what}: {found:?}");
        clock.sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_65090_a_black_hole_ends_the_term_in_time() {
    let (database, _raw) = database().await;
    let (proxy, options) = by_proxy(&database, "a").await;
    let mut node = Node::start(options);
    let mut worst = Duration::ZERO;
    for epoch in 1..=5 {
        let (term, authority) = node.term().await;
        assert_eq!(term.epoch, epoch);
        let before = *proxy.connections().borrow();
        proxy.black_hole();
        let (waited, shown) = node.overrun(&authority).await;
        worst = worst.max(waited).max(shown);
        let now = node.now();
        assert!(matches!(now, Leadership::Unreachable { .. }), "{now:?}");
        let tried = *proxy.connections().borrow() - before;
        assert!(tried >= 1, "the second attempt is on a new connection");
        proxy.open();
    }
    println!("black hole: ended at most {worst:?} late");
    assert!(worst <= TARGET, "{worst:?}");
    node.term().await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_98059_a_stall_shorter_than_the_lease_costs_nothing() {
    let (database, mut raw) = database().await;
    let (proxy, options) = by_proxy(&database, "a").await;
    let limit = options.attempt_limit();
    let mut node = Node::start(options);
    let (_, authority) = node.term().await;
    let before = shared_row(&mut raw).await.expect("a row").expires_at_ms;
    // One attempt runs out of time; the next, on a new connection, gets through.
    proxy.freeze_existing();
    let sql = "SELECT expires_at_ms FROM meta_lease";
    until(&mut raw, "renewal", sql, |now| now[0] > before).await;
    assert!(authority.holds(), "attempts of {limit:?}");
    let (term, _) = node.term().await;
    assert_eq!(term.epoch, 1);
    // What was held back arrives after all.
    proxy.open();
    let before = shared_row(&mut raw).await.expect("a row").expires_at_ms;
    until(&mut raw, "renewal", sql, |now| now[0] > before).await;
    assert!(authority.holds());
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quartz_847_after_an_outage_nothing_holds_before_it_was_won_again() {
    let (database, _raw) = database().await;
    let (mut proxy, options) = by_proxy(&database, "a").await;
    let mut node = Node::start(options);
    let (_, authority) = node.term().await;
    proxy.refuse().await;
    let (waited, shown) = node.overrun(&authority).await;
    assert!(waited <= TARGET && shown <= TARGET, "{waited:?} {shown:?}");
    let shown = node
        .until(
            "refusal",
            |now| matches!(now, Leadership::Unreachable { error, .. } if error.contains("refused")),
        )
        .await;
    let Leadership::Unreachable { since, .. } = shown else {
        panic!("unreachable");
    };
    assert!(since < node.boot());
    proxy.accept().await.expect("the port is free");
    let (term, again) = node.term().await;
    assert_eq!(term.epoch, 2);
    assert!(again.holds() && !authority.holds());
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wolverine_2723_a_connection_that_is_culled_changes_no_leader() {
    let (database, mut raw) = database().await;
    let mut node = Node::start(options(&database.url(), "a"));
    let (_, authority) = node.term().await;
    let mut changes = node.keeper().leadership();
    changes.borrow_and_update();
    let sql = "SELECT expires_at_ms FROM meta_lease";
    for _ in 0..5 {
        let before = shared_row(&mut raw).await.expect("a row").expires_at_ms;
        let killed = raw
            .integers(
                "SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE application_name = 'aedile lease' AND datname = current_database()) gone",
            )
            .await
            .expect("killed");
        assert_eq!(killed, [1], "one connection, and it was there");
        until(&mut raw, "renewal", sql, |now| now[0] > before).await;
    }
    assert!(authority.holds());
    assert!(
        !changes.has_changed().expect("a keeper"),
        "nothing happened"
    );
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_125530_a_follower_whose_connection_is_dead_takes_over_in_time() {
    let (database, _raw) = database().await;
    let mut leader = Node::start(options(&database.url(), "a"));
    leader.term().await;
    let (proxy, options) = by_proxy(&database, "b").await;
    let bound = TTL + options.attempt_limit();
    let mut other = Node::start(options);
    other.following().await;
    proxy.freeze_existing();
    let crash = other.boot();
    drop(leader);
    let (term, _) = other.term().await;
    let took = other.boot().since(crash);
    assert_eq!(term.epoch, 2);
    assert!(took <= bound, "{took:?}");
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn greptimedb_7670_an_acquisition_whose_answer_was_lost_is_taken_up() {
    let (database, mut raw) = database().await;
    raw.make_tables().await.expect("tables");
    let (proxy, options) = by_proxy(&database, "a").await;
    let free = wall_ms() + 1_000;
    raw.run(&format!(
        "UPDATE meta_lease SET holder = 'x', expires_at_ms = {free} WHERE id = 0"
    ))
    .await
    .expect("an update");
    let mut node = Node::start(options);
    node.following().await;
    hold_back_acquisition(&proxy, &mut raw).await;
    let held = shared_row(&mut raw).await.expect("a row");
    assert_eq!(held.holder, node.keeper().holder());
    assert!(node.now().holding().is_none(), "nobody was told");
    given_up(&proxy).await;
    proxy.open();
    let (term, _) = node.term().await;
    assert_eq!(term.epoch, u64::try_from(held.epoch).expect("an epoch") + 1);
    node.stop().await;
}

/// Wait until the keeper has given up its attempt: it connects anew.
async fn given_up(proxy: &Proxy) {
    let mut connections = proxy.connections();
    connections.borrow_and_update();
    let anew = clock().timeout(LIMIT, connections.changed()).await;
    anew.expect("a new connection").expect("a proxy");
}

/// Wait for an acquisition, let it happen and hold its answer back.
async fn hold_back_acquisition(proxy: &Proxy, raw: &mut Raw) {
    // A trigger makes the acquisition slow enough to cut off its answer.
    raw.run(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN PERFORM pg_sleep(0.15); RETURN new; END $$; \
         CREATE TRIGGER slow BEFORE UPDATE ON meta_lease FOR EACH ROW \
         WHEN (old.epoch <> new.epoch) EXECUTE FUNCTION slow()",
    )
    .await
    .expect("a trigger");
    let active = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' \
                  AND datname = current_database()";
    until(raw, "acquisition", active, |now| now[0] > 0).await;
    proxy.mute();
    until(raw, "commit", "SELECT epoch FROM meta_lease", |now| {
        now[0] > 0
    })
    .await;
    raw.run("DROP TRIGGER slow ON meta_lease")
        .await
        .expect("dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn river_286_an_acquisition_under_way_at_the_stop_does_not_stay_held() {
    let (database, mut raw) = database().await;
    raw.make_tables().await.expect("tables");
    let (proxy, options) = by_proxy(&database, "a").await;
    let node = Node::start(options);
    hold_back_acquisition(&proxy, &mut raw).await;
    let stop = tokio::spawn(node.stop());
    given_up(&proxy).await;
    proxy.open();
    stop.await.expect("stopped");
    let row = shared_row(&mut raw).await.expect("a row");
    assert_eq!(row.expires_at_ms, 0, "{row:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_bounded_where_nothing_answers() {
    let (database, _raw) = database().await;
    let (proxy, options) = by_proxy(&database, "a").await;
    let mut node = Node::start(options);
    let (_, authority) = node.term().await;
    proxy.black_hole();
    let start = node.boot();
    node.stop().await;
    assert!(!authority.holds());
    let took = clock().boot().since(start);
    assert!(took < TTL, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_takes_no_writes_has_the_wrong_role() {
    let (database, mut raw) = database().await;
    let mut node = Node::start(options(&database.url(), "a"));
    let (_, authority) = node.term().await;
    let name = raw
        .texts("SELECT current_database()::text")
        .await
        .expect("a name");
    let alter = format!("ALTER DATABASE {} ", name[0]);
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                WHERE application_name = 'aedile lease' AND datname = current_database()";
    raw.run(&format!("{alter} SET default_transaction_read_only = on"))
        .await
        .expect("read-only");
    raw.integers(kill).await.expect("killed");
    let (waited, shown) = node.overrun(&authority).await;
    assert!(waited <= TARGET && shown <= TARGET, "{waited:?} {shown:?}");
    let wrong = |now: &Leadership| matches!(now, Leadership::WrongRole { .. });
    node.until("wrong role", wrong).await;
    // One that only follows is told as well.
    let mut other = Node::start(options(&database.url(), "b"));
    other.until("wrong role", wrong).await;
    raw.run("SET default_transaction_read_only = off")
        .await
        .expect("set");
    raw.run(&format!("{alter} RESET default_transaction_read_only"))
        .await
        .expect("reset");
    raw.integers(kill).await.expect("killed");
    other.stop().await;
    assert_eq!(node.term().await.0.epoch, 2);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shedlock_364_a_stricter_default_isolation_changes_nothing() {
    let (database, mut raw) = database().await;
    let name = raw
        .texts("SELECT current_database()::text")
        .await
        .expect("a name");
    for (epoch, level) in [(1, "repeatable read"), (2, "serializable")] {
        raw.run(&format!(
            "ALTER DATABASE {} SET default_transaction_isolation = '{level}'",
            name[0]
        ))
        .await
        .expect("altered");
        let mut one = Node::start(options(&database.url(), "a"));
        let mut two = Node::start(options(&database.url(), "b"));
        let clock = clock();
        let first = clock.boot();
        let held = loop {
            if let Some((term, _)) = one.now().holding().or(two.now().holding()) {
                break term.clone();
            }
            assert!(clock.boot().since(first) < LIMIT, "{level}");
            clock.sleep(Duration::from_millis(5)).await;
        };
        assert!(held.epoch >= epoch, "{level}");
        let row = shared_row(&mut raw).await.expect("a row");
        assert_eq!(row.holder, held.holder);
        one.until("settled", settled).await;
        two.until("settled", settled).await;
        one.stop().await;
        two.stop().await;
    }
}

fn settled(now: &Leadership) -> bool {
    matches!(
        now,
        Leadership::Holder { .. } | Leadership::Follower { seen: Some(_) }
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn fountain_2368_the_sessions_time_zone_changes_nothing() {
    let (database, mut raw) = database().await;
    let name = raw
        .texts("SELECT current_database()::text")
        .await
        .expect("a name");
    for zone in ["America/New_York", "Pacific/Kiritimati", "UTC"] {
        raw.run(&format!(
            "ALTER DATABASE {} SET timezone = '{zone}'",
            name[0]
        ))
        .await
        .expect("altered");
        let mut node = Node::start(options(&database.url(), "a"));
        let (term, _) = node.term().await;
        let row = shared_row(&mut raw).await.expect("a row");
        let left = row.expires_at_ms - wall_ms();
        assert!((0..=2_000).contains(&left), "{zone}: {left}");
        node.hand_over(&term).await;
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_use_the_row_but_not_create_tables_is_enough() {
    let (database, mut raw) = database().await;
    raw.make_tables().await.expect("tables");
    let url = database
        .role(&["SELECT, UPDATE ON meta_lease"])
        .await
        .expect("a role");
    let mut node = Node::start(options(&url, "a"));
    let (term, _) = node.term().await;
    node.hand_over(&term).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_is_missing_is_named() {
    let (database, mut raw) = database().await;
    raw.make_tables().await.expect("tables");
    let url = database
        .role(&["SELECT ON meta_lease"])
        .await
        .expect("a role");
    let mut node = Node::start(options(&url, "a"));
    node.until("reason", |now| {
        matches!(now, Leadership::Unreachable { error, .. }
            if error.contains("permission denied"))
    })
    .await;
    node.stop().await;
}

/// What a follower's readings must leave as it is: the next transaction id, the
/// end of the write-ahead log and the row's own marks.
async fn traces(raw: &mut Raw) -> Vec<String> {
    raw.texts(
        "SELECT pg_current_wal_insert_lsn() || ' ' \
         || txid_snapshot_xmax(txid_current_snapshot()) || ' ' || xmin || ' ' || xmax \
         FROM meta_lease",
    )
    .await
    .expect("traces")
}

#[tokio::test(flavor = "multi_thread")]
async fn oban_651_a_followers_readings_write_nothing_on_postgres() {
    let cluster = Cluster::start().await.expect("a server of our own");
    let url = cluster.url("postgres");
    let mut raw = Raw::connect(&url).await.expect("a connection");
    raw.make_tables().await.expect("tables");
    let hour = wall_ms() + 3_600_000;
    raw.run(&format!(
        "UPDATE meta_lease SET holder = 'long', epoch = 1, expires_at_ms = {hour}; CHECKPOINT"
    ))
    .await
    .expect("an update");
    let mut node = Node::start(options(&url, "a"));
    node.following().await;
    let mut changes = node.keeper().leadership();
    // The server itself writes now and then: one span without a trace shows
    // that the readings leave none.
    let mut clean = false;
    for _ in 0..4 {
        let before = traces(&mut raw).await;
        for _ in 0..3 {
            changes.borrow_and_update();
            let read = clock().timeout(LIMIT, changes.changed()).await;
            read.expect("a reading").expect("a keeper");
        }
        clean |= traces(&mut raw).await == before;
        if clean {
            break;
        }
    }
    assert!(clean, "every span of three readings left a trace");
    assert!(node.now().holding().is_none());
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_followers_readings_write_nothing_on_sqlite() {
    let database = Database::create(Kind::Sqlite).await.expect("a database");
    let mut raw = database.raw().await.expect("a connection");
    raw.make_tables().await.expect("tables");
    let soon = wall_ms() + 8_000;
    raw.run(&format!(
        "UPDATE meta_lease SET holder = 'long', epoch = 1, expires_at_ms = {soon}"
    ))
    .await
    .expect("an update");
    let mut node = Node::start(options(&database.url(), "a"));
    node.following().await;
    let mut changes = node.keeper().leadership();
    let wal = database.path().expect("a file").with_extension("db-wal");
    let length = || std::fs::metadata(&wal).expect("a log").len();
    let version = raw
        .integers("PRAGMA data_version")
        .await
        .expect("a version");
    let before = length();
    for _ in 0..5 {
        changes.borrow_and_update();
        let read = clock().timeout(LIMIT, changes.changed()).await;
        read.expect("a reading").expect("a keeper");
    }
    assert!(node.now().holding().is_none());
    assert_eq!(length(), before);
    let now = raw
        .integers("PRAGMA data_version")
        .await
        .expect("a version");
    assert_eq!(now, version);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_of_named_leases_is_ours_and_the_shared_one_is_not_made_for_it() {
    let (database, mut raw) = database().await;
    let named = aedile_tests_contract::leases::named(&database.url(), "a", "job");
    let mut node = Node::start(named);
    node.term().await;
    let found = row(&mut raw, "aedile_lease WHERE name = 'job'").await;
    assert_eq!(found.expect("a row").epoch, 1);
    let tables = "SELECT count(*) FROM pg_tables WHERE tablename = 'meta_lease'";
    assert_eq!(raw.integers(tables).await.expect("tables"), [0]);
    node.stop().await;
}
