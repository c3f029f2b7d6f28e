//! `job`: what the tick was told, and its budget. Always there.

use std::time::Duration;

use crate::bindings::generated::aedile::maintenance::job::Host;
use crate::run::context::Context;

/// A budget counts as nearly used up when less than a tenth is left.
const NEARLY: u32 = 10;

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Context {
    fn cpu_left(&self) -> Duration {
        self.limits.cpu.saturating_sub(self.meter.spent())
    }

    fn wall_left(&self) -> Duration {
        self.limits.wall.saturating_sub(self.elapsed())
    }
}

impl Host for Context {
    fn now(&mut self) -> wasmtime::Result<i64> {
        Ok(self.input.now)
    }

    fn plugin(&mut self) -> wasmtime::Result<String> {
        Ok(self.input.plugin.clone())
    }

    fn node(&mut self) -> wasmtime::Result<String> {
        Ok(self.input.node.clone())
    }

    fn epoch(&mut self) -> wasmtime::Result<u64> {
        Ok(self.input.epoch)
    }

    fn config(&mut self) -> wasmtime::Result<String> {
        let config = &self.input.config;
        if config.len() > self.limits.host_call_bytes {
            return Err(self.too_large("the configuration", config.len()).into());
        }
        Ok(config.clone())
    }

    fn cpu_left_ms(&mut self) -> wasmtime::Result<u64> {
        Ok(millis(self.cpu_left()))
    }

    fn wall_left_ms(&mut self) -> wasmtime::Result<u64> {
        Ok(millis(self.wall_left()))
    }

    fn should_stop(&mut self) -> wasmtime::Result<bool> {
        Ok(self.control.stop.is_cancelled()
            || self.cut.get().is_some()
            || self.cpu_left() < self.limits.cpu / NEARLY
            || self.wall_left() < self.limits.wall / NEARLY
            || !(self.control.authority)())
    }

    fn seed(&mut self) -> wasmtime::Result<u64> {
        Ok(self.input.seed)
    }
}
