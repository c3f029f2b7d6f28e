//! One term of leadership: the plugins' ticks, from the first to the join.

mod book;
#[cfg(test)]
mod book_tests;
mod calendar;
mod canary;
mod follow;
mod lead;
mod probation;
mod requests;
mod runs;
mod tick;

pub(crate) use book::Book;
pub(crate) use lead::{Lead, lead};
pub(crate) use runs::Runs;
pub(crate) use tick::{Identity, Ticked, describe, tick, tick_on};
