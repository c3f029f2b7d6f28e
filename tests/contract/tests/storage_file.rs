//! Deleting from and reading a local directory, some of it hostile.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock};
use aedile_storage::{
    Composite, DeleteOutcome, KeyKind, Store, StoreOptions, key_kind, object_key,
};
use aedile_tests_contract::privilege::without_privilege;
use tempfile::TempDir;

struct Objects {
    /// Holds the root and what lies outside of it.
    around: TempDir,
    store: Store,
}

fn clock() -> SharedClock {
    Arc::new(SystemClock)
}

fn open(path: &Path) -> Result<Store, aedile_storage::StorageError> {
    let uri = format!("-2@file://{}", path.display())
        .parse()
        .expect("a URI");
    Store::open(&uri, StoreOptions::default(), clock())
}

impl Objects {
    fn new(ids: impl IntoIterator<Item = u64>) -> Self {
        let around = TempDir::new().expect("a directory");
        let root = around.path().join("objects");
        fs::create_dir(&root).expect("a root");
        for id in ids {
            write(&root.join(object_key(id)), b"bytes");
        }
        let store = open(&root).expect("it opens");
        Self { around, store }
    }

    fn root(&self) -> PathBuf {
        self.around.path().join("objects")
    }

    fn path(&self, id: u64) -> PathBuf {
        self.root().join(object_key(id))
    }

    async fn delete(&self, ids: &[u64]) -> Vec<DeleteOutcome> {
        let outcomes = self
            .store
            .delete(ids, &|| Some(Duration::from_secs(60)))
            .await;
        let order: Vec<u64> = outcomes.iter().map(|(id, _)| *id).collect();
        assert_eq!(order, ids, "one outcome an id, in the order given");
        self.store.settle().await;
        assert_eq!(self.store.unsettled(), 0);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    fs::write(path, bytes).expect("a file");
}

fn denied(outcome: &DeleteOutcome) -> bool {
    matches!(outcome, DeleteOutcome::Denied(_))
}

#[tokio::test]
async fn ten_thousand_go_and_the_undeletable_one_is_named() {
    let ids: Vec<u64> = (0..10_000).collect();
    let objects = Objects::new(ids.iter().copied().filter(|id| *id != 4_711));
    write(&objects.path(4_711).join("inside"), b"x");
    let outcomes = objects.delete(&ids).await;
    for (id, outcome) in outcomes.iter().enumerate() {
        if id == 4_711 {
            let DeleteOutcome::Denied(reason) = outcome else {
                panic!("{outcome:?}");
            };
            assert!(reason.contains("76210000/DEFAULT/4711"), "{reason}");
        } else {
            assert_eq!(*outcome, DeleteOutcome::Deleted, "{id}");
        }
    }
    assert!(objects.path(4_711).join("inside").is_file());
    let again = objects.delete(&ids).await;
    let absent = again
        .iter()
        .filter(|o| **o == DeleteOutcome::Absent)
        .count();
    assert_eq!((absent, denied(&again[4_711])), (9_999, true));
    let left: Vec<_> = entries(&objects.root());
    assert_eq!(left, ["76210000"], "directories go with their objects");
}

/// The names in a directory, sorted.
fn entries(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name())
        .map(|name| name.into_string().expect("text"))
        .collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn directories_go_only_as_far_as_they_are_empty() {
    let objects = Objects::new([1, 2, 3, 4, 6]);
    let root = objects.root();
    // An index of the same hash, an upload that is not complete yet, something
    // beside the inner directory.
    write(&root.join("10000000/DEFAULT/node-7"), b"x");
    write(&root.join("20000000/DEFAULT/2#1"), b"x");
    write(&root.join("30000000/other"), b"x");
    // Left by somebody who deletes files alone; half of it; an inner link.
    fs::create_dir_all(root.join("50000000/DEFAULT")).expect("directories");
    fs::create_dir_all(root.join("70000000")).expect("a directory");
    fs::create_dir_all(root.join("80000000")).expect("a directory");
    fs::create_dir_all(root.join("kept/DEFAULT")).expect("directories");
    symlink("../kept", root.join("80000000/DEFAULT")).expect("a link");
    // A link to a directory inside that is no object's.
    symlink("kept", root.join("90000000")).expect("a link");
    let outcomes = objects.delete(&[1, 2, 3, 4, 5, 7, 8, 9]).await;
    let (gone, absent) = outcomes.split_at(4);
    assert!(
        gone.iter().all(|o| *o == DeleteOutcome::Deleted),
        "{gone:?}"
    );
    assert!(
        absent.iter().all(|o| *o == DeleteOutcome::Absent),
        "{absent:?}"
    );
    assert_eq!(
        entries(&root),
        [
            "10000000", "20000000", "30000000", "60000000", "70000000", "80000000", "90000000",
            "kept"
        ]
    );
    assert_eq!(entries(&root.join("30000000")), ["other"]);
    assert_eq!(entries(&root.join("kept")), ["DEFAULT"]);
    assert!(root.join("10000000/DEFAULT/node-7").is_file());
    assert!(root.join("20000000/DEFAULT/2#1").is_file());
    assert!(objects.path(6).is_file());
}

/// As `object_store`'s `LocalFileSystem` does it: open, and where the directory
/// is missing, make it and open again; then rename within it. How often it was
/// missing.
fn upload(path: &Path) -> std::io::Result<usize> {
    let staged = PathBuf::from(format!("{}#1", path.display()));
    let mut missing = 0;
    loop {
        match fs::File::create_new(&staged) {
            Ok(_) => {
                fs::rename(&staged, path)?;
                return Ok(missing);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                missing += 1;
                fs::create_dir_all(path.parent().expect("a parent"))?;
            }
            Err(error) => return Err(error),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_into_the_same_directory_is_not_disturbed() {
    let objects = Objects::new([]);
    // An index may share an object's directory, so its writer meets the deletes.
    let index = objects.root().join("10000000/DEFAULT/node-7");
    let writer = tokio::task::spawn_blocking(move || {
        let mut missing = 0;
        for _ in 0..5_000 {
            missing += upload(&index)?;
            // Gone again, so that the directories can go too.
            fs::remove_file(&index)?;
        }
        Ok::<_, std::io::Error>(missing)
    });
    while !writer.is_finished() {
        assert_eq!(objects.delete(&[1]).await, [DeleteOutcome::Absent]);
    }
    let missing = writer.await.expect("no panic").expect("no upload fails");
    assert!(missing > 1, "they never met: {missing}");
    println!("the writer found its directory gone {missing} times");
}

#[tokio::test]
async fn neighbours_are_left_alone() {
    let objects = Objects::new([1, 2]);
    let neighbours = [
        "10000000/DEFAULT/1#0",
        "10000000/DEFAULT/01",
        "10000000/DEFAULT/node-1",
        "52674dec/DEFAULT/node-1",
        "C4CA4238A0B923820DCC509A6F75849B/_kafka_picomq/1/17/wal/0-1",
        "1",
    ];
    for key in neighbours {
        write(&objects.root().join(key), b"x");
    }
    assert_eq!(objects.delete(&[1]).await, [DeleteOutcome::Deleted]);
    for key in neighbours {
        assert!(objects.root().join(key).is_file(), "{key}");
    }
    assert!(objects.path(2).is_file());
}

#[tokio::test]
async fn a_linked_directory_does_not_lead_out() {
    let objects = Objects::new([1]);
    let outside = objects.around.path().join("outside");
    // As the first and as the second part of a key, absolute and relative.
    write(&outside.join("DEFAULT/2"), b"precious");
    symlink(&outside, objects.root().join("20000000")).expect("a link");
    write(&outside.join("4"), b"precious");
    fs::create_dir(objects.root().join("40000000")).expect("a directory");
    symlink("../../outside", objects.root().join("40000000/DEFAULT")).expect("a link");
    for id in [2, 4] {
        let outcome = objects.delete(&[id]).await.remove(0);
        assert!(denied(&outcome), "{id}: {outcome:?}");
        assert!(objects.store.head(id).await.is_err(), "{id}");
        assert!(objects.store.read(id, 0, 8).await.is_err(), "{id}");
        assert!(objects.store.links(id).await.is_err(), "{id}");
    }
    assert!(outside.join("DEFAULT/2").is_file() && outside.join("4").is_file());
    let listed = objects.store.list("", None, 100).await.expect("list");
    let keys: Vec<_> = listed.into_iter().map(|stored| stored.key).collect();
    assert_eq!(keys, [object_key(1)], "a listing does not follow links");
}

#[tokio::test]
async fn a_link_in_the_place_of_an_object_goes_not_what_it_names() {
    let objects = Objects::new([1]);
    let outside = objects.around.path().join("precious");
    write(&outside, b"precious");
    fs::create_dir_all(objects.path(2).parent().expect("a parent")).expect("directories");
    symlink(&outside, objects.path(2)).expect("a link");
    assert!(
        objects.store.read(2, 0, 8).await.is_err(),
        "it does not lead out"
    );
    assert_eq!(objects.delete(&[2]).await, [DeleteOutcome::Deleted]);
    assert!(outside.is_file());
}

#[tokio::test]
async fn a_file_in_the_place_of_a_directory_is_told() {
    let objects = Objects::new([]);
    write(&objects.root().join("10000000"), b"x");
    assert!(denied(&objects.delete(&[1]).await[0]));
    assert!(objects.root().join("10000000").is_file());
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
}

#[test]
fn what_may_not_be_deleted_is_denied() {
    without_privilege(async {
        let objects = Objects::new([1]);
        set_mode(objects.around.path(), 0o755);
        let parent = objects.path(1).parent().expect("a parent").to_path_buf();
        set_mode(&parent, 0o555);
        let outcome = objects.delete(&[1]).await.remove(0);
        let DeleteOutcome::Denied(reason) = &outcome else {
            panic!("{outcome:?}");
        };
        assert!(reason.contains("10000000/DEFAULT/1: "), "{reason}");
        assert!(
            reason.to_lowercase().contains("permission denied"),
            "{reason}"
        );
        assert!(objects.path(1).is_file());

        let root = objects.root();
        set_mode(&root, 0o000);
        let error = objects.store.check().await.expect_err("denied").to_string();
        assert!(error.contains("refuses access"), "{error}");
        let error = objects.store.list("", None, 10).await.expect_err("denied");
        assert!(error.to_string().contains("refuses access"), "{error}");
        set_mode(&root, 0o755);
        set_mode(&parent, 0o755);
    });
}

#[tokio::test]
async fn each_way_to_be_unusable_has_its_own_error() {
    let around = TempDir::new().expect("a directory");
    let missing = around.path().join("nowhere");
    let error = open(&missing).expect_err("missing").to_string();
    assert!(error.contains("nowhere does not exist"), "{error}");
    assert!(!missing.exists(), "it is never created");
    let file = around.path().join("file");
    write(&file, b"x");
    let error = open(&file).expect_err("a file").to_string();
    assert!(error.contains("file is not a directory"), "{error}");
    let error = open(&file.join("x")).expect_err("below a file").to_string();
    assert!(error.contains("not a directory"), "{error}");
    let root = around.path().join("root");
    fs::create_dir(&root).expect("a directory");
    let store = open(&root).expect("it opens");
    assert!(store.check().await.expect("usable").empty);
    write(&root.join("x"), b"x");
    assert!(!store.check().await.expect("usable").empty);
}

#[tokio::test]
async fn a_root_that_was_moved_away_makes_nothing_look_absent() {
    let objects = Objects::new([1]);
    let elsewhere = objects.around.path().join("elsewhere");
    fs::rename(objects.root(), &elsewhere).expect("moved");
    let unknown = |outcome: &DeleteOutcome| matches!(outcome, DeleteOutcome::Retry(_));
    assert!(unknown(&objects.delete(&[1]).await[0]));
    assert!(objects.store.check().await.is_err());
    assert!(objects.store.head(2).await.is_err());
    fs::create_dir(objects.root()).expect("an empty one in its place");
    assert!(unknown(&objects.delete(&[1, 2]).await[1]));
    assert!(objects.store.head(2).await.is_err());
    assert!(objects.store.list("", None, 10).await.is_err());
    assert!(elsewhere.join(object_key(1)).is_file());
    fs::remove_dir(objects.root()).expect("removed");
    fs::rename(&elsewhere, objects.root()).expect("moved back");
    assert_eq!(
        objects.delete(&[1, 2]).await,
        [DeleteOutcome::Deleted, DeleteOutcome::Absent]
    );
}

#[tokio::test]
async fn a_shut_gate_ends_after_what_was_sent() {
    let ids: Vec<u64> = (0..2_000).collect();
    let objects = Objects::new(ids.iter().copied());
    let asked = AtomicUsize::new(0);
    let gate = || (asked.fetch_add(1, Ordering::Relaxed) < 3).then_some(Duration::from_secs(60));
    let outcomes = objects.store.delete(&ids, &gate).await;
    let left = || ids.iter().filter(|id| objects.path(**id).is_file()).count();
    // Nothing goes on behind the answer, and what it says is so.
    let now = left();
    for (id, outcome) in &outcomes {
        match outcome {
            DeleteOutcome::Deleted => assert!(!objects.path(*id).exists()),
            DeleteOutcome::NotSent => assert!(objects.path(*id).is_file()),
            other => panic!("{id}: {other:?}"),
        }
    }
    let deleted = outcomes
        .iter()
        .filter(|(_, o)| *o == DeleteOutcome::Deleted)
        .count();
    assert_eq!(now, 2_000 - deleted);
    assert!(deleted > 0 && deleted < 1_000, "three chunks: {deleted}");
    assert_eq!(asked.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn a_gate_that_leaves_no_time_ends_between_two_objects() {
    let objects = Objects::new(0..500);
    let ids: Vec<u64> = (0..500).collect();
    let outcomes = objects
        .store
        .delete(&ids, &|| Some(Duration::from_nanos(1)))
        .await;
    let not_sent = outcomes
        .iter()
        .filter(|(_, o)| *o == DeleteOutcome::NotSent)
        .count();
    assert_eq!(not_sent, 500);
}

#[tokio::test]
async fn objects_are_looked_up_and_read() {
    let objects = Objects::new([1]);
    write(&objects.path(9), b"0123456789");
    let stored = objects
        .store
        .head(9)
        .await
        .expect("head")
        .expect("it is there");
    assert_eq!(
        (stored.key, stored.id, stored.size),
        (object_key(9), Some(9), 10)
    );
    let now = clock().unix().0;
    assert!(
        (now - stored.modified.0).abs() < 60_000,
        "{} {now}",
        stored.modified
    );
    let read =
        async |id, offset, length| objects.store.read(id, offset, length).await.expect("read");
    assert_eq!(read(9, 3, 4).await.as_deref(), Some(&b"3456"[..]));
    assert_eq!(read(9, 8, u32::MAX).await.as_deref(), Some(&b"89"[..]));
    assert_eq!(read(9, 10, 5).await.as_deref(), Some(&b""[..]));
    assert_eq!(read(9, u64::MAX, 5).await.as_deref(), Some(&b""[..]));
    assert_eq!(read(7, 0, 5).await, None);
    let many = objects.store.head_many(&[9, 7, 1], 4).await;
    let there: Vec<_> = many
        .into_iter()
        .map(|(id, found)| (id, found.expect("head").is_some()))
        .collect();
    assert_eq!(there, [(9, true), (7, false), (1, true)]);
}

#[tokio::test]
async fn a_pipe_in_the_place_of_an_object_holds_nobody_up() {
    let objects = Objects::new([]);
    fs::create_dir_all(objects.path(1).parent().expect("a parent")).expect("directories");
    nix::unistd::mkfifo(&objects.path(1), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    assert_eq!(objects.store.read(1, 0, 5).await.expect("read"), None);
    assert_eq!(
        objects.store.links(1).await.expect("links"),
        Composite::Absent
    );
}

#[tokio::test]
async fn keys_are_listed_in_byte_order_in_pages() {
    let objects = Objects::new(0..300);
    let mut expected: Vec<String> = (0..300).map(object_key).collect();
    // A slash sorts between a full stop and a digit.
    for key in [
        "00000000.x",
        "000000000",
        "00000000/DEFAULT.x",
        "aedile/modules/ff",
        "z",
    ] {
        write(&objects.root().join(key), b"x");
        expected.push(key.to_owned());
    }
    expected.sort_unstable();
    for page in [1, 7, 304, 305, 306] {
        let mut found: Vec<String> = Vec::new();
        loop {
            let after = found.last().map(String::as_str);
            let listed = objects.store.list("", after, page).await.expect("list");
            let last = listed.len() < page;
            found.extend(listed.into_iter().map(|stored| stored.key));
            if last {
                break;
            }
        }
        assert_eq!(found, expected, "in pages of {page}");
    }
    for prefix in [
        "0",
        "00000000",
        "00000000/",
        "00000000/DEF",
        "aedile/modules/",
        "q",
        "../",
    ] {
        let listed = objects.store.list(prefix, None, 1_000).await.expect("list");
        let keys: Vec<&str> = listed.iter().map(|stored| stored.key.as_str()).collect();
        let wanted: Vec<&str> = expected
            .iter()
            .map(String::as_str)
            .filter(|key| key.starts_with(prefix))
            .collect();
        assert_eq!(keys, wanted, "{prefix}");
    }
    // From a key that nobody has, as a page begins whose last key was deleted.
    let after = "10000000/DEFAULT/0";
    let listed = objects
        .store
        .list("", Some(after), 1_000)
        .await
        .expect("list");
    let wanted = expected.iter().filter(|key| key.as_str() > after).count();
    assert_eq!(listed.len(), wanted);
    for stored in listed {
        assert_eq!(
            stored.id.is_some(),
            matches!(key_kind(&stored.key), KeyKind::Data(_))
        );
    }
}

#[tokio::test]
async fn what_goes_while_it_is_listed_is_left_out() {
    let objects = Objects::new(0..40);
    let first = objects.store.list("", None, 10).await.expect("list");
    let all: Vec<u64> = (0..40).collect();
    let kept: Vec<u64> = first.iter().filter_map(|stored| stored.id).collect();
    let gone: Vec<u64> = all.into_iter().filter(|id| !kept.contains(id)).collect();
    objects.delete(&gone).await;
    let after = first.last().map(|stored| stored.key.clone());
    let rest = objects
        .store
        .list("", after.as_deref(), 100)
        .await
        .expect("list");
    assert_eq!(rest, []);
}

#[tokio::test]
async fn picomqs_own_composites_are_read() {
    // As PicoMQ 0.1.0 wrote it: three links, 36 bytes of index each.
    let mut bytes = vec![0x52, 0, 0, 0, 3];
    for (ordinal, id) in [17_u64, 18, 19].into_iter().enumerate() {
        bytes.extend_from_slice(&id.to_be_bytes());
        bytes.extend_from_slice(&u32::try_from(ordinal).expect("small").to_be_bytes());
        bytes.extend_from_slice(&(-2_i16).to_be_bytes());
    }
    bytes.extend_from_slice(&[1; 108]);
    bytes.extend_from_slice(&47_u64.to_be_bytes());
    bytes.extend_from_slice(&108_u32.to_be_bytes());
    bytes.extend_from_slice(&[0; 28]);
    bytes.extend_from_slice(&0x88E2_41B7_85F4_CFF8_u64.to_be_bytes());
    assert_eq!(bytes.len(), 203);
    let objects = Objects::new([1]);
    write(&objects.path(20), &bytes);
    write(&objects.path(21), &bytes[1..]);
    write(&objects.path(22), b"");
    write(&objects.path(23), &bytes[..100]);
    let links = objects.store.links_many(&[20, 1, 21, 22, 99, 23], 2).await;
    let links: Vec<_> = links
        .into_iter()
        .map(|(_, links)| links.expect("links"))
        .collect();
    assert_eq!(links[0], Composite::Links(vec![17, 18, 19]));
    assert_eq!(links[1], Composite::Plain);
    assert!(
        matches!(links[2], Composite::Unreadable(_)),
        "{:?}",
        links[2]
    );
    assert_eq!(links[3..5], [Composite::Plain, Composite::Absent]);
    let Composite::Unreadable(cut) = &links[5] else {
        panic!("its end is lost: {:?}", links[5]);
    };
    assert!(
        cut.contains("3 links") && cut.contains("100 bytes"),
        "{cut}"
    );
}
