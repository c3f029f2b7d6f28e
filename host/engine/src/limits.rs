//! What one tick may use.

use std::fmt;
use std::time::Duration;

/// What one tick of one plugin may use. Each bound has its own name in
/// [`LimitName`], which is how a tick that exceeds it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory, summed over the memories; 64 KiB to 4 GiB.
    pub memory: usize,
    /// Elements of tables, summed over the tables; up to 10 million.
    pub table_elements: usize,
    /// Time that the plugin's own code and the host's in-memory answers take;
    /// waiting for commands and storage is not charged. 10 ms to 1 h.
    pub cpu: Duration,
    /// Time from start to end, waiting included; at least `cpu`, up to 24 h.
    pub wall: Duration,
    /// How long a host call in flight may go on when its tick has to end. A
    /// call that takes longer is dropped half-way: its outcome is unknown.
    /// Up to 10 min.
    pub grace: Duration,
    /// Bytes that one host call may carry in each direction; 4 KiB to 64 MiB.
    pub host_call_bytes: usize,
    /// Bytes of log lines, 32 more counted for each; what exceeds them is
    /// dropped and counted. Up to 16 MiB.
    pub log_bytes: usize,
    /// Commands proposed. An item of a list is a command; of `clean-destroyed`
    /// every thousand ids are.
    pub commands: u64,
    /// Requests to the store: an id to delete, a page, a head or a read.
    pub storage_operations: u64,
    /// Component handles alive at a time.
    pub handles: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            table_elements: 100_000,
            cpu: Duration::from_secs(5),
            wall: Duration::from_secs(60),
            grace: Duration::from_secs(10),
            host_call_bytes: 1 << 20,
            log_bytes: 64 << 10,
            commands: 10_000,
            storage_operations: 100_000,
            handles: 1_000,
        }
    }
}

/// A limit that is out of its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{limit} is {value}; it must be {range}")]
pub struct LimitsError {
    /// Which limit.
    pub limit: &'static str,
    /// What it was set to.
    pub value: String,
    /// What it may be.
    pub range: &'static str,
}

impl Limits {
    /// Check the ranges.
    ///
    /// # Errors
    /// The first limit that is out of its range.
    pub fn validate(&self) -> Result<(), LimitsError> {
        let check = |ok: bool, limit, value: String, range| {
            if ok {
                Ok(())
            } else {
                Err(LimitsError {
                    limit,
                    value,
                    range,
                })
            }
        };
        let bytes = |value: usize| format!("{value} bytes");
        let time = |value: Duration| format!("{value:?}");
        check(
            (64 << 10..=4 << 30).contains(&self.memory),
            "memory",
            bytes(self.memory),
            "64 KiB to 4 GiB",
        )?;
        check(
            self.table_elements <= 10_000_000,
            "table elements",
            self.table_elements.to_string(),
            "at most 10 million",
        )?;
        check(
            (Duration::from_millis(10)..=Duration::from_secs(3600)).contains(&self.cpu),
            "cpu",
            time(self.cpu),
            "10 ms to 1 h",
        )?;
        check(
            (self.cpu..=Duration::from_secs(24 * 3600)).contains(&self.wall),
            "wall",
            time(self.wall),
            "at least the CPU time and at most 24 h",
        )?;
        check(
            self.grace <= Duration::from_secs(600),
            "grace",
            time(self.grace),
            "at most 10 min",
        )?;
        check(
            (4 << 10..=64 << 20).contains(&self.host_call_bytes),
            "host call bytes",
            bytes(self.host_call_bytes),
            "4 KiB to 64 MiB",
        )?;
        check(
            self.log_bytes <= 16 << 20,
            "log bytes",
            bytes(self.log_bytes),
            "at most 16 MiB",
        )
    }
}

/// Which limit a tick exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitName {
    /// [`Limits::memory`].
    Memory,
    /// [`Limits::table_elements`].
    TableElements,
    /// [`Limits::cpu`].
    Cpu,
    /// [`Limits::wall`].
    Wall,
    /// [`Limits::host_call_bytes`].
    HostCallBytes,
    /// [`Limits::commands`].
    Commands,
    /// [`Limits::storage_operations`].
    StorageOperations,
    /// Core instances, memories or tables: fixed at 1000 each.
    Instances,
    /// [`Limits::handles`].
    Handles,
}

impl LimitName {
    /// The name in words joined by hyphens, as for a metric's label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::TableElements => "table-elements",
            Self::Cpu => "cpu",
            Self::Wall => "wall",
            Self::HostCallBytes => "host-call-bytes",
            Self::Commands => "commands",
            Self::StorageOperations => "storage-operations",
            Self::Instances => "instances",
            Self::Handles => "handles",
        }
    }
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_in_range() {
        Limits::default().validate().expect("in range");
    }

    #[test]
    fn a_limit_out_of_range_is_named_with_its_range() {
        type Change = fn(&mut Limits);
        let cases: [(Change, &str); 6] = [
            (|limits| limits.memory = 1, "memory is 1 bytes"),
            (
                |limits| limits.table_elements = 20_000_000,
                "table elements",
            ),
            (|limits| limits.cpu = Duration::ZERO, "cpu is 0ns"),
            (|limits| limits.wall = Duration::from_secs(1), "wall is 1s"),
            (|limits| limits.host_call_bytes = 1 << 30, "host call bytes"),
            (|limits| limits.log_bytes = 1 << 30, "log bytes"),
        ];
        for (change, expected) in cases {
            let mut limits = Limits::default();
            change(&mut limits);
            let error = limits.validate().expect_err(expected).to_string();
            assert!(error.starts_with(expected), "{error}");
            assert!(error.contains("; it must be "), "{error}");
        }
    }
}
