//! Conformance with what real PicoMQ code wrote: every capture in a directory
//! is put through our codec, `apply` and snapshot, and all that the capture
//! states is compared.
//!
//! The directory is `tests/fixtures`, or the one that `AEDILE_FIXTURES` names.
//! Files are told apart by their form, not by their name, so that further
//! captures can be added: see the table in `tests/fixtures/README.md`. A file
//! of no known form is a failure that names it, and so is a database without
//! the state that it should give.

pub mod archive;
pub mod captures;
pub mod codec;
pub mod database;
pub mod report;
pub mod sequence;
pub mod sql;
pub mod words;

use captures::{Capture, Form};
use report::Report;

/// Checks every capture in the list.
pub fn check_all(captures: &[Capture], report: &mut Report) {
    for capture in captures {
        report.begin(&capture.name);
        match &capture.form {
            Form::ApplySequence => sequence::check_apply(&capture.text(), report),
            Form::FuzzSequence => sequence::check_fuzz(&capture.text(), report),
            Form::Codec => codec::check(&capture.text(), report),
            Form::Sqlite { stated } => database::check_sqlite(capture, stated, report),
            Form::Postgres { stated } => database::check_postgres(capture, stated, report),
            Form::Objects { database } => archive::check(capture, database, report),
            Form::Unknown { why } => report.fail(format!("of no known form: {why}")),
        }
    }
}
