//! The thread that interrupts plugins.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Time between two interruptions.
pub(crate) const PERIOD: Duration = Duration::from_millis(10);

/// Advances an engine's epoch until it is dropped. It is a thread of its own,
/// so that a blocked executor does not stop it.
#[derive(Debug)]
pub(crate) struct Ticker {
    /// Dropped to end the thread.
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub(crate) fn start(engine: &wasmtime::Engine) -> std::io::Result<Self> {
        let (stop, stopped) = sync_channel(0);
        let weak = engine.weak();
        let thread = Builder::new()
            .name("aedile-epoch".to_owned())
            .spawn(move || run(&weak, &stopped))?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

fn run(engine: &wasmtime::EngineWeak, stopped: &Receiver<()>) {
    while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
        match engine.upgrade() {
            Some(engine) => engine.increment_epoch(),
            None => return,
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It ends within one period and cannot panic.
            let _ = thread.join();
        }
    }
}
