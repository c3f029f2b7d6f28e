//! Object storage: key layout, bulk delete with an outcome per object.
//!
//! This crate knows what PicoMQ's objects are called and how to remove their
//! bytes; it knows nothing of the catalog. Whether an object *may* be deleted
//! is decided above it.
//!
//! # Invariants
//! 1. Only what the store confirmed is reported as deleted; an object that a
//!    lost or failed request covered is reported as retryable
//!    (`storage_s3_wire::a_lost_reply_is_retried`).
//! 2. One object's error is never charged to another
//!    (`storage_s3_wire::automq_3393_three_denied_keys_leave_the_others_deleted`).
//! 3. A key never leads out of a `file://` root, whatever links lie inside it
//!    (`storage_file::a_linked_directory_does_not_lead_out`).
//! 4. No request is sent once the gate is shut, and [`Store::delete`] returns
//!    only when everything that was sent has ended
//!    (`storage_file::a_shut_gate_ends_after_what_was_sent`).
//! 5. A key counts as a data object's only if it derives from its id again
//!    (`keys::tests::key_kind_inverts_object_key`).
//! 6. A module is handed out only with the size and the digest by which it was
//!    asked for (`storage_modules::a_changed_byte_is_found_and_mended`), and its
//!    key is never a data object's (`modules::tests::no_modules_key_is_a_data_objects`).
//!
//! # Reading order
//! `keys` (what objects are called), `uri` (where they are), `store` (the
//! operations), `delete` and `pace` (chunks, the gate), `file` and `s3` (the two
//! kinds of store), `composite` (objects that link others), `modules` (plugin
//! modules by digest).
//!
//! ```
//! use aedile_storage::{KeyKind, key_kind, object_key};
//!
//! assert_eq!(object_key(46), "e2000000/DEFAULT/46");
//! assert_eq!(key_kind("e2000000/DEFAULT/46"), KeyKind::Data(46));
//! assert_eq!(key_kind("00000000/DEFAULT/46"), KeyKind::Foreign);
//! ```

mod answer;
mod clients;
mod composite;
mod delete;
mod error;
mod file;
mod folders;
mod keys;
mod modules;
mod options;
mod outcome;
mod pace;
mod probed;
mod s3;
mod store;
mod uri;
mod walk;
mod wire;

pub use error::StorageError;
pub use keys::{KeyKind, key_kind, object_key};
pub use modules::{MODULE_BYTES, MODULE_PREFIX, ModuleDigest, ModuleError, PutModule};
pub use options::{Credentials, StoreOptions};
pub use outcome::{Composite, DeleteOutcome, Location, StoreReport, StoreTraits, Stored};
pub use probed::{Found, StoreProbe, Versioning};
pub use store::{Gate, Store};
pub use uri::{DEFAULT_BUCKET, S3Location, StorageUri};
