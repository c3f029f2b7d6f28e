//! Every example, built and run, as one binary: their waits overlap.

mod author;
mod generated;
mod languages;
mod templates;
