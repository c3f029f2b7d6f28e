//! What was found out about a bucket.

/// An answer to a question about a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is so.
    Yes,
    /// It is not.
    No,
    /// It could not be found out, for this reason.
    Unknown(String),
}

/// Whether a bucket keeps what is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Versioning {
    /// A delete frees the bytes.
    Off,
    /// A delete only hides them: they go on taking space until a lifecycle rule
    /// removes them.
    On,
    /// It was on: what was written then stays, what was written since goes.
    Suspended,
    /// It could not be found out, for this reason.
    Unknown(String),
}

/// What [`Store::probe`](crate::Store::probe) found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreProbe {
    /// Whether many objects go with one request.
    pub bulk_delete: Found,
    /// Whether the bucket keeps what is deleted.
    pub versioning: Versioning,
    /// Whether objects can be locked against deletion. Locked ones are answered
    /// as denied.
    pub object_lock: Found,
}
