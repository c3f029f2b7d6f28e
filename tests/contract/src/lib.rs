//! Tests: contract.
//!
//! The suites in `tests/` run against the real things: SQLite and PostgreSQL
//! ([`databases`]), local directories and an S3 service ([`s3`]).

pub mod databases;
pub mod leases;
pub mod logs;
pub mod s3;
