#![doc = include_str!("../README.md")]

pub mod explore;
pub mod fence;
pub mod fired;
pub mod lease;
