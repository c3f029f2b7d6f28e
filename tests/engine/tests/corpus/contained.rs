//! Guests that load, and misbehave.

use std::time::Duration;

use aedile_engine::wit::{Level, Report};
use aedile_engine::{Grants, LimitName, Tick, TickEnd};
use aedile_tests_engine::{Behaviour, Double, Trial, component, engine, first, section};

fn idle() -> Report {
    Report {
        summary: String::new(),
        done: 0,
        failed: 0,
        more: false,
    }
}

fn done(done: u64) -> TickEnd {
    TickEnd::Done(Report { done, ..idle() })
}

#[track_caller]
fn limited(tick: &Tick, expected: LimitName) -> &str {
    match &tick.end {
        TickEnd::Limit { which, detail } if *which == expected => detail,
        end => panic!("{end:?}"),
    }
}

#[track_caller]
fn trapped<'t>(end: &'t TickEnd, text: &str) -> &'t str {
    match end {
        TickEnd::Trap { message } if message.contains(text) => message,
        end => panic!("{end:?}"),
    }
}

async fn run(name: &str) -> Tick {
    Trial::of(name).await.run(Double::default()).await
}

#[tokio::test]
async fn well_behaved() {
    let tick = run("well_behaved").await;
    let report = Report {
        summary: "all is well".to_owned(),
        done: 5,
        ..idle()
    };
    assert_eq!(tick.end, TickEnd::Done(report));
    assert_eq!(tick.metrics.counters["ticks"], 5);
    assert_eq!(tick.metrics.gauges["level"], 0.5);
    assert_eq!((tick.usage.log_lines, tick.usage.log_dropped), (1, 0));
    assert_eq!(tick.usage.peak_memory, 4 << 16);
    assert_eq!(
        Double::from(tick.host).log,
        [(Level::Info, "all is well".to_owned())]
    );
}

#[tokio::test]
async fn infinite_loop() {
    let trial = Trial::of("infinite_loop").await;
    let tick = trial.run(Double::default()).await;
    limited(&tick, LimitName::Cpu);
    assert!(tick.usage.cpu >= trial.limits.cpu, "{tick:?}");
    // Three in a row: the deadline is armed anew for each.
    for _ in 0..2 {
        limited(&trial.run(Double::default()).await, LimitName::Cpu);
    }
}

/// The term ends while the plugin computes.
#[tokio::test]
async fn a_lost_lease_interrupts_a_loop() {
    let mut trial = Trial::of("infinite_loop").await;
    trial.limits.cpu = Duration::from_secs(10);
    trial.control.authority = first(3);
    let tick = trial.run(Double::default()).await;
    assert_eq!(tick.end, TickEnd::LeaseLost);
    assert!(tick.usage.cpu < Duration::from_secs(5), "{tick:?}");
}

#[tokio::test]
async fn a_loop_leaves_its_thread_to_others() {
    // One thread: this test's own task runs only when the plugin yields.
    let trial = Trial::of("infinite_loop").await;
    let yields = async {
        let mut turns = 0_u32;
        loop {
            turns += 1;
            tokio::task::yield_now().await;
            if turns == 10 {
                return;
            }
        }
    };
    let tick = trial.run(Double::default());
    tokio::pin!(tick);
    tokio::select! {
        biased;
        tick = &mut tick => panic!("it let nobody else run: {tick:?}"),
        () = yields => {}
    }
    limited(&tick.await, LimitName::Cpu);
}

/// envoy 16726, wasmtime 11086: after one trap every later call failed too. Each
/// tick has an instance of its own, so nothing of the last is met.
#[tokio::test]
async fn trap_while_something_lapsed() {
    let trial = Trial::of("trap_while_something_lapsed").await;
    let lapsed = Double {
        lapsed: 1,
        ..Double::default()
    };
    trapped(&trial.run(lapsed).await.end, "`unreachable`");
    for _ in 0..3 {
        assert_eq!(trial.run(Double::default()).await.end, done(0));
    }
}

/// wasmtime 9188: an epoch does not reach a guest that waits in the host. Short
/// calls without end are ended by the wall limit, and cost no CPU.
#[tokio::test]
async fn slow_call_loop() {
    let mut trial = Trial::of("slow_call_loop").await;
    trial.limits.wall = Duration::from_secs(1);
    let behaviour = Behaviour::Slow(Duration::from_millis(20));
    let host = Double {
        behaviour,
        ..Double::default()
    };
    let tick = trial.run(host).await;
    limited(&tick, LimitName::Wall);
    assert!(tick.usage.cpu < trial.limits.cpu, "{tick:?}");
    assert!(Double::from(tick.host).calls > 1);
}

/// wasmtime 12650: what the host would have to copy is bounded before it does.
#[tokio::test]
async fn read_config() {
    let mut trial = Trial::of("read_config").await;
    assert_eq!(trial.run(Double::default()).await.end, done(0));
    trial.config = format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 20));
    let tick = trial.run(Double::default()).await;
    assert!(limited(&tick, LimitName::HostCallBytes).contains("the configuration"));
}

#[tokio::test]
async fn huge_reason() {
    limited(&run("huge_reason").await, LimitName::HostCallBytes);
}

/// Handles of a resource that the plugin itself defines: the table is the
/// host's.
#[tokio::test]
async fn handle_flood() {
    limited(&run("handle_flood").await, LimitName::Handles);
}

/// No module has so many tables; a component can name one as often as it likes,
/// with three bytes each.
#[tokio::test]
async fn twelve_hundred_tables() {
    let mut component = component("trap_in_tick");
    // One module more, of two empty tables; then six hundred instances of it.
    let module = [
        0, b'a', b's', b'm', 1, 0, 0, 0, 4, 7, 2, 0x70, 0, 0, 0x70, 0, 0,
    ];
    section(&mut component, 1, &module);
    let mut instances = vec![0xd8, 0x04];
    for _ in 0..600 {
        instances.extend([0, 1, 0]);
    }
    section(&mut component, 2, &instances);
    let plugin = engine().load(component, &Grants::all()).await;
    let trial = Trial::with(plugin.expect("it is few bytes, and it loads"));
    limited(&trial.run(Double::default()).await, LimitName::Instances);
}

#[tokio::test]
async fn host_call_loop() {
    limited(&run("host_call_loop").await, LimitName::Cpu);
}

#[tokio::test]
async fn command_loop() {
    let mut trial = Trial::of("command_loop").await;
    trial.limits.commands = 100;
    let tick = trial.run(Double::default()).await;
    limited(&tick, LimitName::Commands);
    assert_eq!(tick.usage.commands, 100);
    assert_eq!(Double::from(tick.host).calls, 100);
}

#[tokio::test]
async fn storage_loop() {
    let mut trial = Trial::of("storage_loop").await;
    trial.limits.storage_operations = 100;
    let tick = trial.run(Double::default()).await;
    limited(&tick, LimitName::StorageOperations);
    assert_eq!(tick.usage.storage_operations, 100);
    assert_eq!(Double::from(tick.host).calls, 100);
}

#[tokio::test]
async fn memory_bomb() {
    let tick = run("memory_bomb").await;
    limited(&tick, LimitName::Memory);
    assert_eq!(tick.usage.peak_memory, (4 + 15 * 16) << 16);
}

/// envoy 39395: what is taken is written as well, so that the machine gives it.
/// `beside.rs` measures what the process then takes.
#[tokio::test]
async fn filled_memory() {
    let tick = run("filled_memory").await;
    limited(&tick, LimitName::Memory);
    assert_eq!(tick.usage.peak_memory, (4 + 15 * 16) << 16);
}

#[tokio::test]
async fn memory_bomb_in_parts() {
    let mut trial = Trial::of("memory_bomb_in_parts").await;
    // Two hundred pages for one memory, but not for both.
    trial.limits.memory = 210 << 16;
    let tick = trial.run(Double::default()).await;
    limited(&tick, LimitName::Memory);
    assert!(tick.usage.peak_memory <= 210 << 16);
}

#[tokio::test]
async fn memory_of_its_own_maximum() {
    assert_eq!(run("memory_of_its_own_maximum").await.end, done(0));
}

#[tokio::test]
async fn initial_memory_of_a_small_limit() {
    let mut trial = Trial::of("initial_memory_of_a_small_limit").await;
    assert_eq!(trial.plugin().inspection().minimum_memory, 8 << 20);
    assert_eq!(trial.run(Double::default()).await.end, done(0));
    trial.limits.memory = 4 << 20;
    limited(&trial.run(Double::default()).await, LimitName::Memory);
}

#[tokio::test]
async fn table_bomb() {
    limited(&run("table_bomb").await, LimitName::TableElements);
}

#[tokio::test]
async fn recursion() {
    trapped(&run("recursion").await.end, "call stack exhausted");
}

#[tokio::test]
async fn shadow_stack_overflow() {
    trapped(
        &run("shadow_stack_overflow").await.end,
        "possibly a stack overflow",
    );
}

#[tokio::test]
async fn huge_string() {
    let tick = run("huge_string").await;
    limited(&tick, LimitName::HostCallBytes);
    assert!(Double::from(tick.host).log.is_empty());
}

#[tokio::test]
async fn huge_report() {
    limited(&run("huge_report").await, LimitName::HostCallBytes);
}

#[tokio::test]
async fn aliased_list() {
    let tick = run("aliased_list").await;
    limited(&tick, LimitName::HostCallBytes);
    assert_eq!(Double::from(tick.host).calls, 0);
}

#[tokio::test]
async fn bogus_pointer() {
    trapped(&run("bogus_pointer").await.end, "out of bounds");
}

#[tokio::test]
async fn not_utf8() {
    trapped(&run("not_utf8").await.end, "utf-8");
}

#[tokio::test]
async fn trap_in_tick() {
    trapped(&run("trap_in_tick").await.end, "`unreachable`");
}

#[tokio::test]
async fn trap_in_validate_config() {
    let trial = Trial::of("trap_in_validate_config").await;
    let end = trial.plugin().validate_config("{}", &trial.limits).await;
    trapped(&end.expect_err("it traps"), "`unreachable`");
    assert_eq!(trial.run(Double::default()).await.end, done(0));
}

#[tokio::test]
async fn loop_in_validate_config() {
    let trial = Trial::of("loop_in_validate_config").await;
    let end = trial.plugin().validate_config("{}", &trial.limits).await;
    let end = end.expect_err("it is interrupted");
    assert!(
        matches!(
            end,
            TickEnd::Limit {
                which: LimitName::Cpu,
                ..
            }
        ),
        "{end:?}"
    );
}

#[tokio::test]
async fn host_in_validate_config() {
    let trial = Trial::of("host_in_validate_config").await;
    let end = trial.plugin().validate_config("{}", &trial.limits).await;
    trapped(
        &end.expect_err("it has no host"),
        "`state.lapsed-count` is not available",
    );
}

#[tokio::test]
async fn refuse_config() {
    let trial = Trial::of("refuse_config").await;
    let answer = trial.plugin().validate_config("{}", &trial.limits).await;
    assert_eq!(answer, Ok(Err("no\\nway".to_owned())));
}

#[tokio::test]
async fn trap_in_realloc() {
    let host = Double {
        ids: vec![1, 2, 3],
        ..Double::default()
    };
    let tick = Trial::of("trap_in_realloc").await.run(host).await;
    trapped(&tick.end, "`unreachable`");
}

#[tokio::test]
async fn lying_realloc() {
    let host = Double {
        ids: vec![1, 2, 3],
        ..Double::default()
    };
    let tick = Trial::of("lying_realloc").await.run(host).await;
    trapped(&tick.end, "beyond end of memory");
}

#[tokio::test]
async fn trap_in_post_return() {
    trapped(&run("trap_in_post_return").await.end, "`unreachable`");
}

#[tokio::test]
async fn loop_in_post_return() {
    limited(&run("loop_in_post_return").await, LimitName::Cpu);
}

#[tokio::test]
async fn unreachable_in_start() {
    trapped(&run("unreachable_in_start").await.end, "`unreachable`");
}

#[tokio::test]
async fn loop_in_start() {
    limited(&run("loop_in_start").await, LimitName::Cpu);
}

#[tokio::test]
async fn last_words() {
    let tick = run("last_words").await;
    let message = trapped(
        &tick.end,
        "its last error: panicked at lib.rs:7: boom\\nFORGED",
    );
    assert!(!message.contains('\n'), "{message}");
}

#[tokio::test]
async fn log_flood() {
    let tick = run("log_flood").await;
    assert_eq!(tick.end, done(0));
    assert_eq!(tick.usage.log_lines, (64 << 10) / (32 + 32));
    assert_eq!(tick.usage.log_lines + tick.usage.log_dropped, 10_000);
    assert_eq!(
        Double::from(tick.host).log.len() as u64,
        tick.usage.log_lines
    );
}

#[tokio::test]
async fn empty_log_flood() {
    let tick = run("empty_log_flood").await;
    limited(&tick, LimitName::Cpu);
    assert_eq!(tick.usage.log_lines, (64 << 10) / 32);
}

#[tokio::test]
async fn forged_lines() {
    let log = Double::from(run("forged_lines").await.host).log;
    assert_eq!(log[0].1, "ok\\r\\nERROR forged \\u{1b}[2J \\u{202e}\\u{0}");
    assert_eq!(log[1].1, format!("{}…", "x".repeat(4096 - 3)));
}

#[tokio::test]
async fn metrics_flood() {
    let tick = run("metrics_flood").await;
    assert_eq!(tick.end, done(0));
    assert_eq!(tick.metrics.counters.len(), 64);
    assert_eq!(tick.metrics.dropped, 200 - 64 + 1);
}

#[tokio::test]
async fn page_of_everything() {
    let host = || Double {
        ids: (1..=5000).collect(),
        ..Double::default()
    };
    let mut trial = Trial::of("page_of_everything").await;
    assert_eq!(trial.run(host()).await.end, done(2000));
    trial.limits.host_call_bytes = 4 << 10;
    assert_eq!(trial.run(host()).await.end, done(512));
}

#[tokio::test]
async fn scan_of_everything() {
    let mut host = Double::default();
    for key in 0..8 {
        host.kv.insert(format!("{key}"), vec![0; 300 << 10]);
    }
    let trial = Trial::of("scan_of_everything").await;
    assert_eq!(trial.run(host).await.end, done(3));
    // A page without its first entry would read as the end of the map.
    let mut host = Double::default();
    host.kv.insert("first".to_owned(), vec![0; 2 << 20]);
    let tick = trial.run(host).await;
    assert!(limited(&tick, LimitName::HostCallBytes).contains("`first`"));
}

#[tokio::test]
async fn read_key() {
    let mut host = Double::default();
    host.kv.insert("big".to_owned(), vec![0; 2 << 20]);
    let tick = Trial::of("read_key").await.run(host).await;
    assert!(limited(&tick, LimitName::HostCallBytes).contains("`big`"));
}

#[tokio::test]
async fn read_bytes() {
    let tick = run("read_bytes").await;
    let report = Report {
        done: 100,
        failed: 1,
        ..idle()
    };
    assert_eq!(tick.end, TickEnd::Done(report));
    assert_eq!(Double::from(tick.host).calls, 1);
}

#[tokio::test]
async fn long_list() {
    let tick = run("long_list").await;
    let report = Report {
        failed: 1,
        ..idle()
    };
    assert_eq!(tick.end, TickEnd::Done(report));
    assert_eq!(Double::from(tick.host).calls, 0);
}

#[tokio::test]
async fn until_asked_to_stop() {
    // Its own budget asks it to stop before it is used up.
    let mut trial = Trial::of("until_asked_to_stop").await;
    let tick = trial.run(Double::default()).await;
    assert_eq!(tick.end, done(0));
    assert!(tick.usage.cpu >= trial.limits.cpu * 8 / 10, "{tick:?}");
    trial.control.stop.cancel();
    trial.limits.cpu = Duration::from_secs(10);
    let tick = trial.run(Double::default()).await;
    assert_eq!(tick.end, done(0));
    assert!(tick.usage.cpu < Duration::from_secs(5), "{tick:?}");
}

#[tokio::test]
async fn retry() {
    let end = TickEnd::Retry {
        after: Duration::from_secs(5),
        reason: "not\\nnow".to_owned(),
    };
    assert_eq!(run("retry").await.end, end);
}

#[tokio::test]
async fn reject() {
    let end = TickEnd::Reject {
        reason: "set `bucket`".to_owned(),
    };
    assert_eq!(run("reject").await.end, end);
}

#[tokio::test]
async fn more() {
    let report = Report {
        more: true,
        ..idle()
    };
    assert_eq!(run("more").await.end, TickEnd::More(report));
}

#[tokio::test]
async fn later_compatible_version() {
    let trial = Trial::of("later_compatible_version").await;
    assert_eq!(trial.plugin().inspection().world, "0.1.7");
    assert_eq!(trial.run(Double::default()).await.end, done(0));
}
