//! Plugin modules by digest, in a directory and in a bucket.

use std::fs;
use std::path::PathBuf;

use aedile_storage::{MODULE_BYTES, ModuleDigest, ModuleError, Store, StoreOptions};
use aedile_tests_contract::s3::{Kind, S3Server};
use aedile_tests_contract::stores::{open, options};
use bytes::Bytes;
use tempfile::TempDir;

/// A kind of store, and the folder where its objects can be reached past it.
struct Place {
    name: &'static str,
    store: Store,
    folder: PathBuf,
    server: Option<S3Server>,
    _directory: Option<TempDir>,
}

async fn places() -> Vec<Place> {
    let directory = TempDir::new().expect("a directory");
    let uri = format!("-2@file://{}", directory.path().display());
    let server = S3Server::start("objects").await.expect("a server");
    vec![
        Place {
            name: "directory",
            store: open(&uri, StoreOptions::default()),
            folder: directory.path().to_path_buf(),
            server: None,
            _directory: Some(directory),
        },
        Place {
            name: "bucket",
            store: open(&server.uri(), options()),
            folder: server.folder(),
            server: Some(server),
            _directory: None,
        },
    ]
}

fn module() -> Bytes {
    Bytes::from_static(b"\0asm and what follows it")
}

#[tokio::test]
async fn a_module_is_stored_once_and_comes_back() {
    for place in places().await {
        let (store, bytes) = (&place.store, module());
        let digest = ModuleDigest::of(&bytes);
        let size = bytes.len() as u64;
        assert!(!store.has_module(&digest).await.expect("asked"));
        let missing = store.module(&digest, size).await.expect_err("nothing yet");
        assert!(matches!(missing, ModuleError::Missing { .. }) && !missing.transient());

        let put = store.put_module(bytes.clone()).await.expect("stored");
        assert!(put.written && put.digest == digest, "{}", place.name);
        let again = store.put_module(bytes.clone()).await.expect("stored");
        assert!(!again.written, "{}", place.name);
        assert!(store.has_module(&digest).await.expect("asked"));
        assert_eq!(store.module(&digest, size).await.expect("there"), bytes);
        assert_eq!(
            fs::read(place.folder.join(digest.key())).expect("the object"),
            bytes
        );
        let beside = fs::read_dir(place.folder.join("aedile/modules")).expect("a folder");
        assert_eq!(
            beside.count(),
            1,
            "{}: nothing is left beside it",
            place.name
        );

        let empty = store.put_module(Bytes::new()).await.expect("stored");
        let none = store.module(&empty.digest, 0).await.expect("there");
        assert!(none.is_empty(), "{}", place.name);
    }
}

#[tokio::test]
async fn a_changed_byte_is_found_and_mended() {
    for place in places().await {
        let (store, bytes) = (&place.store, module());
        let digest = store
            .put_module(bytes.clone())
            .await
            .expect("stored")
            .digest;
        let size = bytes.len() as u64;
        let path = place.folder.join(digest.key());
        let mut flipped = bytes.to_vec();
        flipped[9] ^= 1;
        let longer = [&bytes[..], b"!"].concat();
        for (wrong, says) in [
            (flipped.as_slice(), "its digest is"),
            (&bytes[..5], "5 bytes instead of"),
            (&longer, "bytes instead of"),
            (b"", "0 bytes instead of"),
        ] {
            fs::write(&path, wrong).expect("damaged");
            let error = store.module(&digest, size).await.expect_err("damaged");
            assert!(matches!(error, ModuleError::Damaged { .. }) && !error.transient());
            let text = error.to_string();
            assert!(
                text.contains(says) && text.contains("Deploy the same file again"),
                "{}: {text}",
                place.name
            );
            let mended = store.put_module(bytes.clone()).await.expect("mended");
            assert!(mended.written);
            assert_eq!(store.module(&digest, size).await.expect("there"), bytes);
        }
    }
}

#[tokio::test]
async fn a_module_that_is_too_large_is_not_stored() {
    for place in places().await {
        let large = Bytes::from(vec![0; usize::try_from(MODULE_BYTES).expect("it fits") + 1]);
        let error = place.store.put_module(large).await.expect_err("too large");
        assert!(error.to_string().contains("at most 33554432"), "{error}");
        assert!(!place.folder.join("aedile").exists(), "{}", place.name);
    }
}

#[tokio::test]
async fn two_who_store_it_at_once_both_succeed() {
    for place in places().await {
        let bytes = module();
        let puts = (0..8).map(|_| place.store.put_module(bytes.clone()));
        for put in futures_util::future::join_all(puts).await {
            assert_eq!(put.expect("stored").digest, ModuleDigest::of(&bytes));
        }
        let digest = ModuleDigest::of(&bytes);
        let there = place.store.module(&digest, bytes.len() as u64).await;
        assert_eq!(there.expect("there"), bytes);
    }
}

#[tokio::test]
async fn a_store_that_asks_for_less_is_asked_again_later() {
    let place = places().await.pop().expect("a bucket");
    let (server, store) = (place.server.expect("a server"), place.store);
    let digest = store.put_module(module()).await.expect("stored").digest;
    let size = module().len() as u64;
    server.faults().refuse(Kind::Get, 503, "SlowDown", 1);
    let error = store.module(&digest, size).await.expect_err("throttled");
    assert!(error.transient(), "{error}");
    server.faults().refuse(Kind::Get, 403, "AccessDenied", 1);
    let error = store.module(&digest, size).await.expect_err("denied");
    assert!(!error.transient(), "{error}");
    assert_eq!(store.module(&digest, size).await.expect("there"), module());
}
