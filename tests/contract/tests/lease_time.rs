//! Clocks that are wrong, of nodes and of the database.

use std::sync::Arc;
use std::time::Duration;

use aedile_lease::Leadership;
use aedile_tests_contract::databases::{Database, Kind, Raw};
use aedile_tests_contract::for_each_database;
use aedile_tests_contract::leases::{
    LIMIT, LeaseRow, Node, Skewed, TTL, clock, named, options, row,
};

for_each_database!(
    shedlock_231_nodes_whose_clocks_are_a_day_off_agree,
    etcd_12291_a_databases_clock_an_hour_ahead_costs_one_takeover,
    etcd_6700_a_databases_clock_an_hour_back_delays_no_takeover,
);

const DAY_MS: i64 = 86_400_000;
const HOUR_MS: i64 = 3_600_000;
const LEASE: &str = "aedile_lease WHERE name = 'job'";

async fn database(kind: Kind) -> (Database, Raw) {
    let database = Database::create(kind).await.expect("a database");
    let raw = database.raw().await.expect("a connection");
    (database, raw)
}

/// Wait until one of these leads; which.
async fn leader(nodes: &[Node]) -> usize {
    let clock = clock();
    let end = clock.boot() + LIMIT;
    loop {
        let leads = |node: &Node| node.now().holding().is_some_and(|(_, a)| a.holds());
        if let Some(found) = nodes.iter().position(leads) {
            return found;
        }
        assert!(clock.boot() < end, "nobody leads");
        clock.sleep(Duration::from_millis(2)).await;
    }
}

fn epoch(node: &Node) -> Option<u64> {
    node.now().holding().map(|(term, _)| term.epoch)
}

async fn shedlock_231_nodes_whose_clocks_are_a_day_off_agree(kind: Kind) {
    let (database, mut raw) = database(kind).await;
    let offsets = [-DAY_MS, -300_000, 0, 300_000, DAY_MS];
    let clocks = offsets.map(|by_ms| {
        let clock = Skewed::default();
        clock.step_to(by_ms);
        clock
    });
    let mut nodes: Vec<Node> = clocks
        .iter()
        .map(|clock| {
            let options = named(&database.url(), "n", "job");
            let node = Node::idle_by(options, Arc::new(clock.clone()));
            node.fit();
            node
        })
        .collect();
    for node in &mut nodes {
        node.until("answer", |now| {
            now.holding().is_some()
                || matches!(now, Leadership::Follower { seen: Some(seen) }
                if !seen.expires_in.is_zero())
        })
        .await;
    }
    let first = leader(&nodes).await;
    let term = epoch(&nodes[first]);
    // Every clock steps while the lease is held, the holder's too.
    for step in [DAY_MS, -DAY_MS, 300_000, 0] {
        for (clock, offset) in clocks.iter().zip(offsets) {
            clock.step_to(offset + step);
        }
        let before = row(&mut raw, LEASE).await.expect("a row").expires_at_ms;
        until_row(&mut raw, |now| now.expires_at_ms > before).await;
        assert_eq!(epoch(&nodes[first]), term, "{step}");
        let holders = nodes.iter().filter(|node| epoch(node).is_some()).count();
        assert_eq!(holders, 1, "{step}");
    }
    let crash = clock().boot();
    drop(nodes.remove(first));
    let next = leader(&nodes).await;
    let took = clock().boot().since(crash);
    assert!(took <= TTL + TTL / 4, "{took:?}");
    assert_eq!(epoch(&nodes[next]), term.map(|epoch| epoch + 1));
    for node in nodes {
        node.stop().await;
    }
}

async fn until_row(raw: &mut Raw, wanted: impl Fn(&LeaseRow) -> bool) -> LeaseRow {
    let clock = clock();
    let end = clock.boot() + LIMIT;
    loop {
        let now = row(raw, LEASE).await.expect("a row");
        if wanted(&now) {
            return now;
        }
        assert!(clock.boot() < end, "{now:?}");
        clock.sleep(Duration::from_millis(2)).await;
    }
}

/// A clock of the database that can be stepped.
///
/// PostgreSQL gets a `clock_timestamp()` of its own, found before the built-in
/// one. SQLite's clock is the machine's, which no test steps: there the row is
/// moved the other way, which is the same to all statements, since they compare
/// the two.
struct Steps {
    kind: Kind,
    raw: Raw,
}

impl Steps {
    async fn prepare(database: &Database) -> Self {
        let (kind, mut raw) = (database.kind(), database.raw().await.expect("a connection"));
        if kind == Kind::Postgres {
            let name = raw.texts("SELECT current_database()::text").await;
            let name = &name.expect("a name")[0];
            raw.run(&format!(
                "CREATE SCHEMA fake; CREATE TABLE fake.step (ms bigint NOT NULL); \
                 INSERT INTO fake.step VALUES (0); \
                 CREATE FUNCTION fake.clock_timestamp() RETURNS timestamptz LANGUAGE sql \
                 VOLATILE AS $$ SELECT pg_catalog.clock_timestamp() \
                 + (SELECT ms FROM fake.step) * interval '1 millisecond' $$; \
                 ALTER DATABASE {name} SET search_path = public, fake, pg_catalog"
            ))
            .await
            .expect("a clock");
        }
        Self { kind, raw }
    }

    async fn step(&mut self, ms: i64) {
        let sql = match self.kind {
            Kind::Postgres => format!("UPDATE fake.step SET ms = ms + {ms}"),
            Kind::Sqlite => {
                format!("UPDATE aedile_lease SET expires_at_ms = expires_at_ms - {ms}")
            }
        };
        self.raw.run(&sql).await.expect("a step");
    }
}

async fn etcd_12291_a_databases_clock_an_hour_ahead_costs_one_takeover(kind: Kind) {
    let (database, mut raw) = database(kind).await;
    let mut steps = Steps::prepare(&database).await;
    let url = database.url();
    let mut nodes: Vec<Node> = (0..3)
        .map(|_| Node::start(named(&url, "n", "job")))
        .collect();
    let first = leader(&nodes).await;
    for (k, node) in nodes.iter_mut().enumerate() {
        if k != first {
            node.following().await;
        }
    }
    let (_, old) = nodes[first].term().await;
    let before = row(&mut raw, LEASE).await.expect("a row");
    // What the design bounds the overlap by: the old holder's next renewal.
    let bound = TTL / 4 + options(&url, "n").attempt_limit();
    steps.step(HOUR_MS).await;
    let stepped = clock().boot();
    clock()
        .timeout(LIMIT, old.ended())
        .await
        .expect("the old holder is fenced");
    let ended = clock().boot().since(stepped);
    assert!(ended <= bound, "it held for {ended:?} after the step");
    leader(&nodes).await;
    // Nothing more happens in two more leases.
    let after = row(&mut raw, LEASE).await.expect("a row");
    assert_eq!(after.epoch, before.epoch + 1, "one takeover");
    let end = clock().boot() + 2 * TTL;
    while clock().boot() < end {
        let holders = nodes.iter().filter(|node| epoch(node).is_some()).count();
        assert_eq!(holders, 1);
        clock().sleep(Duration::from_millis(20)).await;
    }
    let now = row(&mut raw, LEASE).await.expect("a row");
    assert_eq!((now.holder, now.epoch), (after.holder, after.epoch));
    for node in nodes {
        node.stop().await;
    }
}

async fn etcd_6700_a_databases_clock_an_hour_back_delays_no_takeover(kind: Kind) {
    let (database, mut raw) = database(kind).await;
    let mut steps = Steps::prepare(&database).await;
    let url = database.url();
    let mut leading = Node::start(named(&url, "a", "job"));
    let (term, authority) = leading.term().await;
    let mut other = Node::start(named(&url, "b", "job"));
    other.following().await;
    steps.step(-HOUR_MS).await;
    // It renews as if nothing had happened.
    for _ in 0..4 {
        let before = row(&mut raw, LEASE).await.expect("a row").expires_at_ms;
        until_row(&mut raw, |now| now.expires_at_ms != before).await;
    }
    assert!(authority.holds());
    // It steps once more and the holder dies: the row now lapses in an hour.
    let crash = clock().boot();
    drop(leading);
    steps.step(-HOUR_MS).await;
    let (next, _) = other.term().await;
    let took = clock().boot().since(crash);
    assert_eq!(next.epoch, term.epoch + 1);
    assert!(took <= 2 * TTL, "{took:?}");
    other.stop().await;
}
