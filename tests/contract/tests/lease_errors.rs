//! Everything that a database can answer: the keeper goes on contending.

use std::time::Duration;

use aedile_lease::Leadership;
use aedile_tests_contract::databases::{Database, Kind, Raw};
use aedile_tests_contract::for_each_database;
use aedile_tests_contract::leases::{Node, options, shared_row};

for_each_database!(kuberhealthy_1533_one_error_on_every_node_ends_no_contention);

async fn database(kind: Kind) -> (Database, Raw) {
    let database = Database::create(kind).await.expect("a database");
    let mut raw = database.raw().await.expect("a connection");
    raw.make_tables().await.expect("tables");
    (database, raw)
}

/// From now on every change of the row fails. On PostgreSQL with this state.
async fn fail(raw: &mut Raw, state: &str) {
    let sql = match raw {
        Raw::Sqlite(_) => "CREATE TRIGGER harm BEFORE UPDATE ON meta_lease \
                           BEGIN SELECT RAISE(ABORT, 'injected'); END"
            .to_owned(),
        Raw::Postgres(_) => format!(
            "CREATE FUNCTION harm() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '{state}'; END $$; \
             CREATE TRIGGER harm BEFORE UPDATE ON meta_lease \
             FOR EACH ROW EXECUTE FUNCTION harm()"
        ),
    };
    raw.run(&sql).await.expect("a trigger");
}

async fn mend(raw: &mut Raw) {
    let sql = match raw {
        Raw::Sqlite(_) => "DROP TRIGGER harm",
        Raw::Postgres(_) => "DROP TRIGGER harm ON meta_lease; DROP FUNCTION harm()",
    };
    raw.run(sql).await.expect("mended");
}

async fn kuberhealthy_1533_one_error_on_every_node_ends_no_contention(kind: Kind) {
    let (database, mut raw) = database(kind).await;
    let mut nodes: Vec<Node> = (0..3)
        .map(|_| Node::start(options(&database.url(), "n")))
        .collect();
    let before = any_term(&mut nodes).await;
    fail(&mut raw, "XX000").await;
    // The renewal of the one fails, and then the acquisitions of all.
    for node in &mut nodes {
        node.until("error", |now| {
            matches!(now, Leadership::Unreachable { error, .. } if error.contains("injected"))
        })
        .await;
    }
    mend(&mut raw).await;
    // Each of them still contends: the one that leads goes, another leads.
    let mut epoch = before;
    while !nodes.is_empty() {
        let next = any_term(&mut nodes).await;
        assert!(next > epoch, "{next} after {epoch}");
        epoch = next;
        let leading = nodes.iter().position(|node| node.now().holding().is_some());
        drop(nodes.remove(leading.expect("it leads")));
    }
}

/// Wait until one of these leads; its epoch.
async fn any_term(nodes: &mut [Node]) -> u64 {
    let clock = aedile_tests_contract::leases::clock();
    let end = clock.boot() + aedile_tests_contract::leases::LIMIT;
    loop {
        if let Some((term, _)) = nodes.iter().find_map(|node| {
            let now = node.now();
            now.holding()
                .map(|(term, authority)| (term.epoch, authority.clone()))
        }) {
            return term;
        }
        assert!(clock.boot() < end, "nobody leads");
        clock.sleep(Duration::from_millis(5)).await;
    }
}

/// What a PostgreSQL server may refuse a renewal with: lost connections,
/// read-only, serialization, deadlock, rights, a missing table, too many
/// connections, locks, cancellation, shutdown, a standby that starts, a full
/// disk, its own bugs, a trigger of the operator's.
const STATES: [&str; 16] = [
    "08000", "08006", "08P01", "25006", "40001", "40P01", "42501", "42P01", "53300", "53100",
    "55P03", "57014", "57P01", "57P03", "XX000", "P0001",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cockroach_85541_no_error_of_the_server_ends_the_contention() {
    let (database, mut raw) = database(Kind::Postgres).await;
    let mut node = Node::start(options(&database.url(), "n"));
    for state in STATES {
        let (term, authority) = node.term().await;
        fail(&mut raw, state).await;
        let shown = node.until("trouble", |now| now.holding().is_none()).await;
        assert!(!authority.holds(), "{state}: {shown:?}");
        let wrong_role = matches!(shown, Leadership::WrongRole { .. });
        let seen = matches!(shown, Leadership::Follower { .. });
        match state {
            "25006" => assert!(wrong_role, "{state}: {shown:?}"),
            // As if the row were gone: it is not, so it is taken back.
            "42P01" => assert!(seen, "{state}: {shown:?}"),
            _ => assert!(
                matches!(shown, Leadership::Unreachable { .. }),
                "{state}: {shown:?}"
            ),
        }
        mend(&mut raw).await;
        let (next, _) = node.term().await;
        assert!(next.epoch > term.epoch, "{state}");
    }
    let row = shared_row(&mut raw).await.expect("a row");
    assert_eq!(row.holder, node.keeper().holder());
    node.stop().await;
}
