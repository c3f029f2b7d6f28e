//! One tick of one guest.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use aedile_clock::SystemClock;
use aedile_engine::{
    Control, Engine, EngineOptions, Grants, Limits, LoadError, Plugin, Tick, TickEnd, TickInput,
};
use tokio_util::sync::CancellationToken;

use crate::{Double, guest};

/// The engine that the tests of a file share.
pub fn engine() -> &'static Engine {
    static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
        Engine::new(EngineOptions::default(), Arc::new(SystemClock)).expect("an engine")
    });
    &ENGINE
}

/// Grants from their texts.
///
/// # Panics
/// If a text names no grant.
pub fn grants(texts: &[&str]) -> Grants {
    texts
        .iter()
        .map(|text| text.parse().expect("a grant"))
        .collect()
}

/// Authority that is there for the first `calls` questions.
pub fn first(calls: u64) -> Arc<dyn Fn() -> bool + Send + Sync> {
    let asked = AtomicU64::new(0);
    Arc::new(move || asked.fetch_add(1, Ordering::SeqCst) < calls)
}

/// One tick of one guest, with small limits.
#[derive(Debug)]
pub struct Trial {
    plugin: Plugin,
    /// What the tick may use.
    pub limits: Limits,
    /// What it heeds.
    pub control: Control,
    /// Its configuration.
    pub config: String,
}

impl Trial {
    /// A guest that loads with every grant.
    ///
    /// # Panics
    /// If it does not load.
    pub async fn of(name: &str) -> Self {
        let plugin = engine()
            .load(guest(name), &Grants::all())
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        Self::with(plugin)
    }

    /// A plugin that is loaded.
    pub fn with(plugin: Plugin) -> Self {
        Self {
            plugin,
            limits: Limits {
                memory: 16 << 20,
                cpu: Duration::from_millis(300),
                wall: Duration::from_secs(10),
                grace: Duration::from_secs(5),
                ..Limits::default()
            },
            control: Control {
                authority: Arc::new(|| true),
                stop: CancellationToken::new(),
            },
            config: "{}".to_owned(),
        }
    }

    /// Why a guest is refused.
    ///
    /// # Panics
    /// If it is not, or if `inspect` says something else.
    pub async fn refusal(engine: &Engine, name: &str, grants: &Grants) -> LoadError {
        let error = engine
            .load(guest(name), grants)
            .await
            .expect_err("it is refused");
        if let Err(inspected) = engine.inspect(&guest(name)) {
            assert_eq!(inspected, error);
        }
        error
    }

    /// The plugin.
    pub fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    /// Run a tick. Whatever became of it, a well-behaved plugin's next tick
    /// succeeds.
    ///
    /// # Panics
    /// If it does not.
    pub async fn run(&self, host: Double) -> Tick {
        let tick = self.tick(host).await;
        let next = Self::with(
            engine()
                .load(guest("well_behaved"), &Grants::all())
                .await
                .expect("it loads"),
        );
        let after = next.tick(Double::default()).await;
        assert!(matches!(after.end, TickEnd::Done(_)), "{after:?}");
        let most = self.limits.wall + self.limits.grace + Duration::from_secs(5);
        assert!(tick.usage.wall < most, "{tick:?}");
        tick
    }

    async fn tick(&self, host: Double) -> Tick {
        let input = TickInput {
            now: 1_790_000_000_000,
            plugin: self.plugin.manifest().name.clone(),
            node: "node-a".to_owned(),
            epoch: 7,
            config: self.config.clone(),
            seed: 11,
        };
        self.plugin
            .tick(input, Box::new(host), &self.limits, self.control.clone())
            .await
    }
}
