//! The lease row: election, renewal, fencing epoch, release.
