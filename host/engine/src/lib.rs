//! Runs one tick of a Wasm plugin within its limits and grants.
//!
//! It is the only crate that sees wasmtime. It knows nothing of logs, leases,
//! stores or schedules: those are behind the trait [`Host`], and [`Control`]
//! says whether the term still stands.
//!
//! What always holds (each has a test in `tests/engine`):
//!
//! 1. A plugin imports only what it was granted; what it imports is checked by
//!    name before anything is compiled ([`Engine::load`]).
//! 2. A tick ends, in one [`TickEnd`], within its [`Limits`]: memory, CPU, wall
//!    time, bytes a call, log, commands, requests to the store.
//! 3. Every host call asks for authority right before it reaches the [`Host`]
//!    and right after; past the end of the term the plugin is interrupted.
//! 4. A host call in flight is awaited, for [`Limits::grace`] at most; when
//!    [`Plugin::tick`] returns, nothing of the tick runs on.
//! 5. A trap, a loop, a bomb or a panicking host costs one tick of one plugin:
//!    each tick has a fresh store and instance.
//! 6. What a module costs before it runs is bounded by [`EngineOptions`].
//!
//! Reading order: [`Host`] and `tick.rs` (what goes in and out), `load/` (from
//! bytes to a plugin), `run/` (one tick), `run/interface/` (one file for each
//! interface of `wit/`).
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use aedile_engine::{Control, Engine, EngineOptions, Grants, Host, Limits, TickInput};
//! # async fn example(host: Box<dyn Host>, bytes: Vec<u8>) -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::new(EngineOptions::default(), Arc::new(aedile_clock::SystemClock))?;
//! let grants: Grants = ["state".parse()?].into_iter().collect();
//! let plugin = engine.load(bytes, &grants).await?;
//! let input = TickInput {
//!     now: 1_790_000_000_000,
//!     plugin: plugin.manifest().name.clone(),
//!     node: "node-a".to_owned(),
//!     epoch: 7,
//!     config: "{}".to_owned(),
//!     seed: 1,
//! };
//! let control = Control {
//!     authority: Arc::new(|| true),
//!     stop: Default::default(),
//! };
//! let tick = plugin.tick(input, host, &Limits::default(), control).await;
//! println!("{}", tick.end);
//! # Ok(())
//! # }
//! ```

mod bindings;
mod engine;
mod error;
mod grant;
mod host;
mod limits;
mod load;
mod manifest;
mod options;
mod plugin;
mod run;
mod text;
mod tick;
mod ticker;

pub use bindings::wit;
pub use engine::Engine;
pub use error::{EngineError, LoadError};
pub use grant::{Grant, Grants, UnknownGrant};
pub use host::{Call, Fatal, Host};
pub use limits::{LimitName, Limits, LimitsError};
pub use load::{Inspection, Kind};
pub use manifest::{MANIFEST_SECTION, Manifest, ManifestError, Schedule};
pub use options::{EngineOptions, OptionsError};
pub use plugin::Plugin;
pub use tick::{Control, Metrics, Tick, TickEnd, TickInput, Usage};

/// The version of the package `aedile:maintenance` that this host serves.
pub const SERVED: &str = "aedile:maintenance@0.1.0";
