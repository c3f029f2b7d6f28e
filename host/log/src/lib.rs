//! Client of the metadata log: SQL store, tailer, proposer, views.
