//! What every benchmark is given.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{BootInstant, SharedClock, SystemClock};

/// How large the benchmarks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scale {
    /// As the figures are quoted.
    Full,
    /// A tenth or so: to look at while working.
    Quick,
    /// As small as may be: whether it runs at all.
    Toy,
}

/// What every benchmark is given.
#[derive(Clone, Debug)]
pub struct Context {
    /// How large.
    pub scale: Scale,
    /// Runs of product and of baseline.
    pub rounds: usize,
    /// The benchmarks' own binary, for what is measured in a process of its own.
    pub binary: PathBuf,
    /// Time.
    pub clock: SharedClock,
}

impl Context {
    /// As many runs as the scale asks for.
    pub fn new(scale: Scale, binary: PathBuf) -> Self {
        let rounds = match scale {
            Scale::Full => 5,
            Scale::Quick => 3,
            Scale::Toy => 1,
        };
        Self {
            scale,
            rounds,
            binary,
            clock: Arc::new(SystemClock),
        }
    }

    /// The size at this scale.
    pub fn size(&self, full: usize, quick: usize, toy: usize) -> usize {
        match self.scale {
            Scale::Full => full,
            Scale::Quick => quick,
            Scale::Toy => toy,
        }
    }

    /// Now.
    pub fn now(&self) -> BootInstant {
        self.clock.boot()
    }

    /// Time since then.
    pub fn since(&self, start: BootInstant) -> Duration {
        self.clock.boot().since(start)
    }
}
