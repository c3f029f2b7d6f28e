//! The lease row: election, renewal, fencing epoch, release.

mod authority;
mod board;
mod driver;
mod error;
mod holder;
mod keeper;
mod leadership;
mod options;
pub mod protocol;
mod store;
mod url;

pub use authority::Authority;
pub use error::LeaseError;
pub use holder::is_native;
pub use keeper::Keeper;
pub use leadership::{Leadership, Seen, Term};
pub use options::{LeaseName, LeaseOptions};
