use std::io::Write as _;

use proptest::prelude::*;
use serde_json::json;
use tar::{Builder, EntryType, Header};

use super::read::Fault;
use super::*;
use crate::{SupplyError, SupplyErrorKind, sha256_hex};

const LARGEST: u64 = 1 << 20;

fn sample() -> Bundle {
    Bundle {
        record: json!({ "v": 1, "config": { "rules": ["ä", 1] }, "grants": ["state"] }),
        module: include_bytes!("../../tests/data/module.wasm").to_vec(),
        signature: Some(include_str!("../../tests/data/module.wasm.minisig").to_owned()),
    }
}

fn bytes(bundle: &Bundle) -> Vec<u8> {
    let mut out = Vec::new();
    bundle.encode(&mut out).expect("encoded");
    out
}

fn read(bytes: &[u8]) -> Result<Bundle, SupplyError> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("written");
    Bundle::read(file.path(), LARGEST)
}

/// An archive of these entries, whatever they are.
fn archive(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut archive = Builder::new(Vec::new());
    for (name, kind, bytes) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_size(bytes.len() as u64);
        let field = &mut header.as_old_mut().name;
        field[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        archive.append(&header, *bytes).expect("appended");
    }
    archive.into_inner().expect("an archive")
}

fn index(of: &[(&str, &[u8])]) -> Vec<u8> {
    let files: serde_json::Map<_, _> = of
        .iter()
        .map(|(name, bytes)| {
            let entry = json!({ "size": bytes.len(), "sha256": sha256_hex(bytes) });
            ((*name).to_owned(), entry)
        })
        .collect();
    serde_json::to_vec(&json!({ "v": 1, "files": files })).expect("JSON")
}

#[test]
fn what_is_written_is_read() {
    let dir = tempfile::tempdir().expect("a directory");
    for (n, bundle) in [
        sample(),
        Bundle {
            signature: None,
            ..sample()
        },
    ]
    .iter()
    .enumerate()
    {
        let path = dir.path().join(format!("{n}.tar"));
        bundle.write(&path).expect("written");
        assert_eq!(&Bundle::read(&path, LARGEST).expect("read"), bundle);
        assert_eq!(std::fs::read(&path).expect("there"), bytes(bundle));
        // The same again is refused: a bundle is never overwritten.
        let error = bundle.write(&path).expect_err("it is there");
        assert!(error.to_string().contains("cannot be written"), "{error}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 2);
}

#[test]
fn every_flipped_byte_of_a_bundle_is_found() {
    let bundle = sample();
    let whole = bytes(&bundle);
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x20;
        if let Ok(read) = read(&changed) {
            // Only the padding of the archive says nothing.
            assert_eq!(read, bundle, "byte {at}");
        }
    }
    let content = 512 + index_len(&whole) + 5;
    let mut changed = whole.clone();
    changed[content] ^= 0x20;
    assert!(read(&changed).is_err());
}

/// Up to where the first entry reaches, with its padding.
fn index_len(whole: &[u8]) -> usize {
    let size = std::str::from_utf8(&whole[124..135]).expect("octal");
    let size = usize::from_str_radix(size.trim_matches(['\0', ' ']), 8).expect("octal");
    size.div_ceil(512) * 512 + 512
}

#[test]
fn every_bundle_that_was_cut_short_is_found() {
    let whole = bytes(&sample());
    // An archive ends with 1024 zeros, which say nothing.
    for end in (0..whole.len() - 1024).step_by(37) {
        assert!(read(&whole[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn what_does_not_belong_is_refused_by_name() {
    let module: &[u8] = b"\0asm";
    let record: &[u8] = b"{}";
    let good = index(&[(MODULE, module), (RECORD, record)]);
    let file = EntryType::Regular;
    let start = (INDEX, file, &good[..]);
    let both = [(RECORD, file, record), (MODULE, file, module)];
    let with = |more: &[(&str, EntryType, &[u8])]| {
        let mut entries = vec![start, both[0], both[1]];
        entries.extend_from_slice(more);
        archive(&entries)
    };
    assert!(read(&with(&[])).is_ok());
    for (bytes, expect) in [
        (
            with(&[("../escape", file, b"x")]),
            "`../escape` does not belong",
        ),
        (with(&[("/etc/passwd", file, b"x")]), "does not belong"),
        (with(&[(MODULE, file, module)]), "in it twice"),
        (with(&[(SIGNATURE, file, b"x")]), "not named by its index"),
        (
            with(&[("link", EntryType::Symlink, b"")]),
            "not a plain file",
        ),
        (archive(&both), "does not begin with bundle.json"),
        (
            archive(&[start, both[0]]),
            "`module.wasm`, which its index names, is not in it",
        ),
        (archive(&[]), "it has no bundle.json"),
        (b"not a tar at all".to_vec(), "no whole tar archive"),
        (vec![0x55; 2048], "no whole tar archive"),
    ] {
        let error = read(&bytes).expect_err(expect);
        assert!(error.to_string().contains(expect), "{expect}: {error}");
        assert_eq!(error.kind(), SupplyErrorKind::Refused);
    }
}

#[test]
fn a_newer_bundle_is_named_with_both_versions() {
    let error = read(&archive(&[(
        INDEX,
        EntryType::Regular,
        br#"{"v":2,"files":[]}"#,
    )]))
    .expect_err("newer");
    let text = error.to_string();
    assert!(
        text.contains("version 2") && text.contains("version 1"),
        "{text}"
    );
}

#[test]
fn a_module_over_the_limit_is_not_read() {
    let bundle = Bundle {
        module: vec![7; 3000],
        ..sample()
    };
    let Err(Fault::Other(error)) = Bundle::decode(&bytes(&bundle)[..], 2999) else {
        panic!("it is too large");
    };
    assert!(
        error.to_string().contains("3000 bytes; the limit is 2999"),
        "{error}"
    );
    assert!(Bundle::decode(&bytes(&bundle)[..], 3000).is_ok());
}

#[test]
fn a_signature_that_is_none_is_refused() {
    let bundle = Bundle {
        signature: Some("hello".to_owned()),
        ..sample()
    };
    let error = read(&bytes(&bundle)).expect_err("no signature");
    assert!(matches!(error, SupplyError::BadSignature { .. }), "{error}");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        prop_assert!(read(&bytes).is_err());
    }
}
