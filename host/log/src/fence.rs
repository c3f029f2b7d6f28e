//! The condition under which an append may land: that a term still stands.

use std::fmt;

/// Who has to hold a lease, at which epoch, for a row to land. Read in the
/// append's own transaction, after its insert, and kept from changing until the
/// commit: a takeover comes wholly before the row, which then does not land, or
/// wholly after it.
#[derive(Clone, PartialEq, Eq)]
pub struct Fence {
    /// Name of the row in `aedile_lease`; none for the row in `meta_lease`.
    pub(crate) name: Option<String>,
    pub(crate) holder: String,
    pub(crate) epoch: u64,
}

impl Fence {
    /// A term of the lease that PicoMQ nodes contend for too.
    pub fn shared(holder: impl Into<String>, epoch: u64) -> Self {
        Self {
            name: None,
            holder: holder.into(),
            epoch,
        }
    }

    /// A term of a lease with a name of its own.
    pub fn named(name: impl Into<String>, holder: impl Into<String>, epoch: u64) -> Self {
        Self {
            name: Some(name.into()),
            holder: holder.into(),
            epoch,
        }
    }

    /// What is told of a row that did not land; `now` is what the lease row says.
    pub(crate) fn out(&self, now: &str) -> String {
        format!(
            "fenced out: the term of epoch {} is over, the lease row says {now}",
            self.epoch
        )
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref().unwrap_or("shared");
        write!(f, "Fence({name}, {} at {})", self.holder, self.epoch)
    }
}
