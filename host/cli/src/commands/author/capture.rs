//! A captured state in a file: one line of JSON that says what it is, then the
//! snapshot's bytes as PicoMQ writes them.

use aedile_log::View;
use aedile_state::State;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The form that this version writes, and the only one that it reads.
const FORM: u32 = 1;
/// How the file begins, whatever its form.
pub(super) const MAGIC: &[u8] = b"{\"aedile-state\":";
/// Longest first line.
const LINE: usize = 4096;

/// A state, and the database's time when it was read.
#[derive(Clone, Debug)]
pub(super) struct Capture {
    pub(super) view: View,
    pub(super) now: i64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Header {
    aedile_state: u32,
    index: u64,
    now: i64,
    bytes: u64,
    sha256: String,
    written_by: String,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CaptureError {
    #[error("it is no state that `aedile state export` wrote")]
    Foreign,
    #[error(
        "it is a state of form {0}, and this version reads form {FORM}; export it again with \
         this version, or use the newer one"
    )]
    Form(u64),
    #[error(
        "it is cut off or has grown: {found} bytes follow its first line instead of {expected}"
    )]
    Length { expected: u64, found: u64 },
    #[error("its bytes are not those that were exported (their sha256 differs); export it again")]
    Damaged,
    #[error("its snapshot cannot be read: {0}")]
    Snapshot(String),
}

impl Capture {
    /// The bytes of its file.
    pub(super) fn encode(&self) -> serde_json::Result<Vec<u8>> {
        let payload = self.view.state.encode_snapshot();
        let header = Header {
            aedile_state: FORM,
            index: self.view.index,
            now: self.now,
            bytes: payload.len() as u64,
            sha256: digest(&payload),
            written_by: format!("aedile {}", env!("CARGO_PKG_VERSION")),
        };
        let mut file = serde_json::to_vec(&header)?;
        file.push(b'\n');
        file.extend(payload);
        Ok(file)
    }

    /// The state of a file's bytes.
    pub(super) fn decode(file: &[u8]) -> Result<Self, CaptureError> {
        let head = &file[..file.len().min(LINE)];
        let end = head
            .iter()
            .position(|byte| *byte == b'\n')
            .filter(|_| file.starts_with(MAGIC))
            .ok_or(CaptureError::Foreign)?;
        let (line, payload) = (&file[..end], &file[end + 1..]);
        // The form decides what the rest of the line means.
        let any: serde_json::Value =
            serde_json::from_slice(line).map_err(|_| CaptureError::Foreign)?;
        match any["aedile-state"].as_u64() {
            Some(form) if form == u64::from(FORM) => {}
            Some(form) => return Err(CaptureError::Form(form)),
            None => return Err(CaptureError::Foreign),
        }
        let header: Header = serde_json::from_value(any).map_err(|_| CaptureError::Foreign)?;
        let found = payload.len() as u64;
        if found != header.bytes {
            return Err(CaptureError::Length {
                expected: header.bytes,
                found,
            });
        }
        if digest(payload) != header.sha256 {
            return Err(CaptureError::Damaged);
        }
        let state = State::decode_snapshot(payload)
            .map_err(|error| CaptureError::Snapshot(error.to_string()))?;
        Ok(Self {
            view: View {
                index: header.index,
                state,
            },
            now: header.now,
        })
    }
}

fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use aedile_state::Command;

    use super::*;

    fn capture() -> Capture {
        let mut state = State::new();
        let put = Command::PutKv {
            key: "/orders".to_owned(),
            value: vec![1, 2],
        };
        state.apply(&put).expect("a key can be put");
        Capture {
            view: View { index: 7, state },
            now: 1_796_000_000_000,
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let capture = capture();
        let file = capture.encode().expect("bytes");
        assert!(file.starts_with(MAGIC));
        let read = Capture::decode(&file).expect("its own form");
        assert_eq!((read.view.index, read.now), (7, 1_796_000_000_000));
        assert_eq!(read.view.state.first_difference(&capture.view.state), None);
    }

    #[test]
    fn whatever_is_changed_is_noticed() {
        let file = capture().encode().expect("bytes");
        for at in 0..file.len() {
            let mut bytes = file.clone();
            bytes[at] ^= 1;
            let harmless = at < file.len() - 2
                && Capture::decode(&bytes).is_ok_and(|read| {
                    // The words about who wrote it, when and at which index.
                    read.view
                        .state
                        .first_difference(&capture().view.state)
                        .is_none()
                });
            assert!(harmless || Capture::decode(&bytes).is_err(), "byte {at}");
        }
        for length in 0..file.len() {
            Capture::decode(&file[..length]).expect_err("it is cut off");
        }
        let mut newer = file.clone();
        newer[MAGIC.len()] = b'2';
        assert_eq!(Capture::decode(&newer).err(), Some(CaptureError::Form(2)));
        assert_eq!(
            Capture::decode(b"SQLite").err(),
            Some(CaptureError::Foreign)
        );
    }
}
