//! Tests: contract.
//!
//! The suites in `tests/` run against the real things: SQLite and PostgreSQL
//! ([`databases`]), local directories and an S3 service ([`s3`]), an OCI registry
//! ([`registry`]) and minisign ([`signer`]).

pub mod databases;
pub mod leases;
pub mod logs;
pub mod privilege;
pub mod registry;
pub mod s3;
pub mod signer;
pub mod stores;
