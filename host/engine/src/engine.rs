//! The engine: what all plugins share.

use std::fmt;
use std::sync::Arc;

use aedile_clock::SharedClock;
use tokio::sync::Semaphore;
use wasmtime::component::{HasSelf, Linker};

use crate::bindings::generated::{Plugin as World, PluginPre};
use crate::error::{EngineError, LoadError};
use crate::grant::Grants;
use crate::load::{self, Inspection};
use crate::options::EngineOptions;
use crate::plugin::Plugin;
use crate::run::Context;
use crate::text::line;
use crate::ticker::Ticker;

/// Compiles plugins and interrupts them. A clone is another handle.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

/// What plugins keep alive.
pub(crate) struct Shared {
    /// Ends before the engine that it advances.
    _ticker: Ticker,
    pub(crate) wasm: wasmtime::Engine,
    linker: Linker<Context>,
    pub(crate) options: EngineOptions,
    pub(crate) clock: SharedClock,
    compilations: Arc<Semaphore>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Start an engine, with the thread that interrupts plugins. The clock
    /// measures budgets, so it must move by itself.
    ///
    /// # Errors
    /// An option out of its range, or a machine that cannot run it.
    pub fn new(options: EngineOptions, clock: SharedClock) -> Result<Self, EngineError> {
        options.validate()?;
        let setup = |error: wasmtime::Error| EngineError::Setup(line(&format!("{error:#}")));
        let wasm = wasmtime::Engine::new(&config(options.count_fuel)).map_err(setup)?;
        let mut linker = Linker::new(&wasm);
        World::add_to_linker::<_, HasSelf<Context>>(&mut linker, |context| context)
            .map_err(setup)?;
        let ticker = Ticker::start(&wasm).map_err(EngineError::Ticker)?;
        let compilations = Arc::new(Semaphore::new(options.compilations));
        Ok(Self {
            shared: Arc::new(Shared {
                _ticker: ticker,
                wasm,
                linker,
                options,
                clock,
                compilations,
            }),
        })
    }

    /// What a module is, without compiling it.
    ///
    /// # Errors
    /// Why it would be refused, its grants apart.
    pub fn inspect(&self, bytes: &[u8]) -> Result<Inspection, LoadError> {
        load::examine(bytes, &self.shared.options).map(|examined| examined.inspection)
    }

    /// Check a module, compile it and link it. Nothing of it runs.
    ///
    /// # Errors
    /// Why it is refused.
    pub async fn load(
        &self,
        bytes: impl Into<Arc<[u8]>>,
        grants: &Grants,
    ) -> Result<Plugin, LoadError> {
        let bytes = bytes.into();
        let shared = self.shared.clone();
        let grants = grants.clone();
        let limit = shared.options.compile_timeout;
        let compile = async {
            let place = shared
                .compilations
                .clone()
                .acquire_owned()
                .await
                .expect("the semaphore is never closed");
            let shared = shared.clone();
            let task = tokio::task::spawn_blocking(move || {
                // Held by the compilation itself: one that is given up keeps it.
                let _place = place;
                build(&shared, &bytes, &grants)
            });
            match task.await {
                Ok(built) => built,
                Err(failed) => Err(LoadError::CompilerPanic {
                    detail: line(&failed.to_string()),
                }),
            }
        };
        let (inspection, pre) = shared
            .clock
            .timeout(limit, compile)
            .await
            .map_err(|_| LoadError::CompileTimeout { limit })??;
        Ok(Plugin::new(self.shared.clone(), inspection, pre))
    }
}

fn build(
    shared: &Shared,
    bytes: &[u8],
    grants: &Grants,
) -> Result<(Inspection, PluginPre<Context>), LoadError> {
    let examined = load::examine(bytes, &shared.options)?;
    examined.check_grants(grants)?;
    let component = wasmtime::component::Component::from_binary(&shared.wasm, &examined.component)
        .map_err(|error| LoadError::Compile {
            detail: line(&format!("{error:#}")),
        })?;
    // The types of every import and export are compared here, by name.
    let pre = shared
        .linker
        .instantiate_pre(&component)
        .and_then(PluginPre::new)
        .map_err(|error| load::mismatch(&error))?;
    Ok((examined.inspection, pre))
}

fn config(count_fuel: bool) -> wasmtime::Config {
    let mut config = wasmtime::Config::new();
    config
        .epoch_interruption(true)
        .consume_fuel(count_fuel)
        // A module comes optimised from its own compiler. Doing it again makes no
        // tick faster, but takes up to eight times as long to compile, most on
        // code that is made for that.
        .cranelift_opt_level(wasmtime::OptLevel::None)
        // The same module gives the same results on every machine.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .concurrency_support(false);
    config
}
