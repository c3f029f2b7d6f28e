//! The bounds of the log's world, and what was broken in it.

/// The append as it is, or broken in one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// As it is.
    #[default]
    Sound,
    /// The lease row is read in a snapshot that was taken when the transaction
    /// was opened, before it knew its index.
    FenceInOldSnapshot,
    /// The lease row is read after the insert, but not locked.
    FenceUnlocked,
    /// The snapshot's index is read before the insert.
    SnapshotReadFirst,
    /// Nobody asks whether the row before is there.
    PredecessorUnchecked,
    /// After a lost reply the row goes to the next free place at once.
    ResentElsewhere,
    /// The tailer takes whatever stands behind its last row.
    TrustingTailer,
}

/// The bounds of a world. There is no time in it: any node may take the lease at
/// any moment, and a holder goes on for ever.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// How often the lease may be taken.
    pub terms: u8,
    /// How many rows each of the two nodes of Aedile appends.
    pub rows: u8,
    /// How many rows a PicoMQ node appends.
    pub native_rows: u8,
    /// How many snapshots are stored.
    pub snapshots: u8,
    /// How many replies are lost or given up.
    pub lost: u8,
    /// How many failovers there may be that forget.
    pub failovers: u8,
    /// Ask for what is not promised within these bounds as well.
    pub unpromised: bool,
    /// What was broken.
    pub variant: Variant,
}
