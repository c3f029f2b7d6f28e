//! One term of leadership: the plugins' ticks, from the first to the join.

mod book;
mod lead;
mod runs;
mod tick;

pub(crate) use book::Book;
pub(crate) use lead::{Lead, lead};
pub(crate) use runs::Runs;
pub(crate) use tick::{Identity, Ticked, describe, tick};
