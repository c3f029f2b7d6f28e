//! Tests: contract.

pub mod s3;
