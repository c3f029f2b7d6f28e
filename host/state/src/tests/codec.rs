//! The binary form of commands.

use super::*;
use crate::DecodeError;
use crate::codec::{decode_batch, decode_command, encode_batch, encode_command};

#[test]
fn the_worked_examples_encode_as_picomq_does() {
    let expire = Command::ExpirePreparedObjects {
        now_ms: 1_796_191_328_126,
    };
    let bytes = encode_batch(&[expire]);
    assert_eq!(bytes[..7], [0, 1, 0, 0, 0, 9, 0x7e]);
    assert_eq!(bytes.len(), 14);
    let clean = Command::CleanDestroyedObjects {
        objects: vec![ObjectId(7), ObjectId(8)],
    };
    let expected = [
        0, 1, 0, 0, 0, 11, 2, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(encode_batch(std::slice::from_ref(&clean)), expected);
    assert_eq!(decode_command(&encode_command(&clean)), Ok(clean));
    assert_eq!(decode_batch(&[0, 0, 0, 0, 0]), Ok(vec![]));
}

fn corrupt(at: usize, what: &'static str) -> DecodeError {
    DecodeError::Corrupt { at, what }
}

#[test]
fn errors_tell_class_and_position() {
    assert_eq!(decode_batch(&[]), Err(corrupt(0, "no version byte")));
    assert_eq!(
        decode_batch(&[1, 0, 0, 0, 0]),
        Err(DecodeError::UnsupportedVersion(1))
    );
    assert_eq!(
        decode_batch(&[0, 1, 0]),
        Err(corrupt(1, "command count cut short"))
    );
    assert_eq!(
        decode_batch(&[0, 1, 0, 0, 0, 19]),
        Err(DecodeError::UnknownCommand(19))
    );
    assert_eq!(
        decode_batch(&[0, 0, 0, 0, 0, 7]),
        Err(corrupt(5, "bytes after the end"))
    );
    assert_eq!(
        decode_command(&[0, 9, 1]),
        Err(corrupt(2, "time cut short"))
    );
    let key = [0, 14, 2, 0, 0, 0, b'a', 0xff];
    assert_eq!(
        decode_command(&key),
        Err(corrupt(2, "key cut short or not UTF-8"))
    );
    let error = decode_batch(&[0, 1, 0, 0, 0, 19]).unwrap_err();
    assert_eq!(error.to_string(), "command type 19 is not known");
}

/// Payloads of a few bytes that declare gigabytes: refused without the memory
/// (a decoder that reserved it would abort the test).
#[test]
fn declared_lengths_are_not_trusted() {
    let most = [0xff; 4];
    let batch = |body: &[u8]| [&[0, 1, 0, 0, 0], body].concat();
    let mut commit = vec![7];
    commit.extend([0; 4 + 8 + 8 + 8 + 8 + 4]);
    let mut compact = vec![8];
    compact.extend([0; 4 + 8 + 8 + 8 * 6 + 4]);
    for body in [
        [&[11][..], &most].concat(),
        [&[12][..], &most].concat(),
        [&[12, 0, 0, 0, 0][..], &most].concat(),
        [&commit[..], &most].concat(),
        [&commit[..], &[0; 4], &most].concat(),
        [&commit[..], &[0; 8], &most].concat(),
        [&compact[..], &most].concat(),
        [&compact[..], &[0; 4], &most].concat(),
    ] {
        assert!(
            matches!(
                decode_batch(&batch(&body)),
                Err(DecodeError::Corrupt { .. })
            ),
            "{body:?}"
        );
    }
    assert!(matches!(
        decode_batch(&[0, 255, 255, 255, 255]),
        Err(DecodeError::Corrupt { .. })
    ));

    let empty = State::new().encode_snapshot();
    assert_eq!(empty, [0; 89]);
    let most = [0xff; 8];
    // Where each list's length stands in the empty snapshot.
    for at in [9, 17, 33, 41, 49, 57, 73, 81] {
        let mut bytes = empty.clone();
        bytes[at..at + 8].copy_from_slice(&most);
        let refused = corrupt(at + 8, "more entries declared than there are");
        assert_eq!(State::decode_snapshot(&bytes), Err(refused));
    }
}
