//! The binary form of commands, as the rows of the log hold it.

mod decode;
mod encode;
mod error;
mod reader;

pub use decode::{decode_batch, decode_command};
pub use encode::{encode_batch, encode_command};
pub(crate) use encode::{put_blob, put_len};
pub use error::DecodeError;
pub(crate) use reader::Reader;

/// The version byte that every payload begins with.
pub const VERSION: u8 = 0;
