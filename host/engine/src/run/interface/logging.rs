//! `logging`: lines for the operator. Always there.

use crate::bindings::generated::aedile::maintenance::logging::{Host, Level};
use crate::run::context::Context;
use crate::text::line;

/// What a line costs besides its text, in bytes: an empty one is not free.
const LINE_OVERHEAD: usize = 32;

impl Host for Context {
    fn log(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        let line = line(&message);
        if level == Level::Error {
            self.last_words = Some(line.clone());
        }
        let Some(host) = &mut self.host else {
            return Ok(());
        };
        // The first line that does not fit ends the log: dropping just the long
        // ones would leave a text with holes.
        self.logged = self.logged.saturating_add(line.len() + LINE_OVERHEAD);
        if self.logged > self.limits.log_bytes {
            self.logged = usize::MAX;
            self.usage.log_dropped += 1;
            return Ok(());
        }
        self.usage.log_lines += 1;
        host.log(level, &line);
        Ok(())
    }
}
