//! Contract suites that run against every database, as one binary: their waits overlap.

mod control_revisions;
mod lease_errors;
mod lease_faults;
mod lease_handover;
mod lease_load;
mod lease_pooler;
mod lease_rules;
mod lease_time;
mod log_faults;
mod log_fence;
mod log_guards;
mod log_peer;
mod log_propose;
mod log_race;
mod log_restore;
mod log_schema;
mod log_selfcheck;
mod log_tailer;
mod log_writable;
mod registry;
mod storage_file;
mod storage_modules;
mod storage_s3;
mod storage_s3_pace;
mod storage_s3_probe;
mod storage_s3_wire;
