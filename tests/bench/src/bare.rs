//! The baseline of a tick: the same module in wasmtime alone.

use anyhow::Context as _;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, ComponentExportIndex, InstancePre, Linker, Val};
use wasmtime::{Config, Engine, Store};

/// A component that is ready to be instantiated, with nothing around it.
pub(crate) struct Bare {
    engine: Engine,
    pre: InstancePre<()>,
    tick: ComponentExportIndex,
}

impl Bare {
    /// Compile a module as the product's engine does.
    pub(crate) fn new(module: &[u8]) -> anyhow::Result<Self> {
        let component = wit_component::ComponentEncoder::default()
            .module(module)?
            .encode()?;
        let mut config = Config::new();
        config
            .epoch_interruption(true)
            .cranelift_nan_canonicalization(true)
            .concurrency_support(false);
        let build = || {
            let engine = Engine::new(&config)?;
            let component = Component::new(&engine, component)?;
            let mut linker = Linker::new(&engine);
            linker.define_unknown_imports_as_traps(&component)?;
            let pre = linker.instantiate_pre(&component)?;
            Ok((engine, component, pre))
        };
        let (engine, component, pre) = build().map_err(bare_error)?;
        let kind = component.component_type();
        let tick = kind
            .exports(&engine)
            .filter(|(_, item)| matches!(item.ty, ComponentItem::ComponentInstance(_)))
            .find_map(|(name, _)| {
                let interface = component.get_export_index(None, name)?;
                component.get_export_index(Some(&interface), "tick")
            })
            .context("the module exports no `tick`")?;
        Ok(Self { engine, pre, tick })
    }

    /// One tick in a fresh store.
    pub(crate) async fn tick(&self) -> wasmtime::Result<()> {
        let mut store = Store::new(&self.engine, ());
        store.set_epoch_deadline(u64::MAX / 2);
        let instance = self.pre.instantiate_async(&mut store).await?;
        let tick = instance
            .get_func(&mut store, self.tick)
            .ok_or_else(|| wasmtime::Error::msg("`tick` is no function"))?;
        let mut results = [Val::Bool(false)];
        tick.call_async(&mut store, &[], &mut results).await
    }
}

/// Wasmtime's errors are of a type of their own.
pub(crate) fn bare_error(error: wasmtime::Error) -> anyhow::Error {
    anyhow::anyhow!("wasmtime alone: {error:#}")
}
