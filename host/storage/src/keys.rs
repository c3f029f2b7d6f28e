//! What PicoMQ's objects are called.
//!
//! Data, index and write-ahead-log objects share one bucket, so the kind of a
//! key decides whether anything may ever be done to it.

use std::fmt::Write as _;

/// What a key in the bucket belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyKind {
    /// The data object with this id.
    Data(u64),
    /// A node's index of its ranges.
    Index,
    /// A write-ahead log object of a node.
    Wal,
    /// A node's readiness probe.
    Probe,
    /// A plugin module of ours, below `aedile/`.
    Module,
    /// Anything else.
    Foreign,
}

/// The key of the data object with this id: its id as at least eight
/// hexadecimal digits, reversed, so that neighbours spread over the store's
/// partitions.
pub fn object_key(id: u64) -> String {
    let mut key = String::with_capacity(48);
    let mut rest = id;
    for digits in 0.. {
        if rest == 0 && digits >= 8 {
            break;
        }
        let digit = u32::try_from(rest & 0xf).unwrap_or(0);
        key.push(char::from_digit(digit, 16).unwrap_or('0'));
        rest >>= 4;
    }
    // Writing to a string does not fail.
    let _ = write!(key, "/DEFAULT/{id}");
    key
}

/// What this key belongs to.
///
/// A key is a data object's only if its last part is purely decimal and the
/// key derives from that id again: everything else is never a candidate for
/// deletion, however much it resembles one.
pub fn key_kind(key: &str) -> KeyKind {
    if let Some(id) = data_id(key) {
        return KeyKind::Data(id);
    }
    let parts: Vec<&str> = key.split('/').collect();
    match parts.as_slice() {
        ["aedile", rest @ ..] if !rest.is_empty() => KeyKind::Module,
        ["__pico", "readiness_check", pid] if is_decimal(pid) => KeyKind::Probe,
        [hash, "DEFAULT", node] if is_index(hash, node) => KeyKind::Index,
        [md5, cluster, node, epoch, "wal", range] if is_wal(md5, cluster, node, epoch, range) => {
            KeyKind::Wal
        }
        _ => KeyKind::Foreign,
    }
}

fn data_id(key: &str) -> Option<u64> {
    let (_, last) = key.rsplit_once('/')?;
    if !is_decimal(last) {
        return None;
    }
    let id = last.parse().ok()?;
    (object_key(id) == key).then_some(id)
}

fn is_decimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `<hash of "sparse-index" + node>/DEFAULT/node-<node>`.
fn is_index(hash: &str, node: &str) -> bool {
    let Some(node) = node.strip_prefix("node-") else {
        return false;
    };
    node.parse::<i32>().is_ok()
        && hash == format!("{:08x}", java_hash(&format!("sparse-index{node}")))
}

/// Java's hash of an ASCII string.
fn java_hash(text: &str) -> u32 {
    text.bytes().fold(0, |hash: u32, byte| {
        hash.wrapping_mul(31).wrapping_add(u32::from(byte))
    })
}

/// `<MD5>/_kafka_<cluster>/<node>[_<type>]/<epoch>/wal/<start>[-<end>]`.
fn is_wal(md5: &str, cluster: &str, node: &str, epoch: &str, range: &str) -> bool {
    let hash = md5.len() == 32
        && md5
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte));
    let node = node.split_once('_').map_or(node, |(node, _)| node);
    let range = match range.split_once('-') {
        Some((start, end)) => is_decimal(start) && is_decimal(end),
        None => is_decimal(range),
    };
    hash && cluster.starts_with("_kafka_")
        && node.parse::<i32>().is_ok()
        && epoch.parse::<i64>().is_ok()
        && range
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DATA: [(u64, &str); 11] = [
        (0, "00000000/DEFAULT/0"),
        (1, "10000000/DEFAULT/1"),
        (10, "a0000000/DEFAULT/10"),
        (46, "e2000000/DEFAULT/46"),
        (255, "ff000000/DEFAULT/255"),
        (256, "00100000/DEFAULT/256"),
        (123_456_789, "51dcb570/DEFAULT/123456789"),
        (0xffff_ffff, "ffffffff/DEFAULT/4294967295"),
        (4_294_967_296, "000000001/DEFAULT/4294967296"),
        (
            (1 << 63) - 1,
            "fffffffffffffff7/DEFAULT/9223372036854775807",
        ),
        (u64::MAX, "ffffffffffffffff/DEFAULT/18446744073709551615"),
    ];

    #[test]
    fn keys_are_laid_out_as_picomq_does() {
        for (id, key) in DATA {
            assert_eq!(object_key(id), key);
            assert_eq!(key_kind(key), KeyKind::Data(id));
        }
    }

    #[test]
    fn other_keys_have_their_kind() {
        let wal = "C4CA4238A0B923820DCC509A6F75849B/_kafka_picomq/1/1796191747112/wal/";
        for (key, kind) in [
            ("52674dec/DEFAULT/node-1", KeyKind::Index),
            (&format!("{wal}4831838208-4898947072"), KeyKind::Wal),
            (&format!("{wal}4831838208"), KeyKind::Wal),
            (
                "C4CA4238A0B923820DCC509A6F75849B/_kafka_a/1_meta/9/wal/0-1",
                KeyKind::Wal,
            ),
            ("__pico/readiness_check/4711", KeyKind::Probe),
            ("aedile/modules/00ff", KeyKind::Module),
        ] {
            assert_eq!(key_kind(key), kind, "{key}");
        }
    }

    #[test]
    fn what_only_resembles_a_data_object_is_foreign() {
        for key in [
            "",
            "1",
            "/",
            "10000000/DEFAULT/01",
            "10000000/DEFAULT/+1",
            "10000000/DEFAULT/1 ",
            "10000000/DEFAULT/1#0",
            "10000000/DEFAULT/1/",
            "/10000000/DEFAULT/1",
            "x/10000000/DEFAULT/1",
            "10000000/default/1",
            "10000000/DEFAULT/\u{0661}",
            "20000000/DEFAULT/1",
            "1000000/DEFAULT/1",
            "100000000/DEFAULT/1",
            "A0000000/DEFAULT/10",
            "10000000/../10000000/DEFAULT/1",
            "00000000/DEFAULT/18446744073709551616",
            "00000001/DEFAULT/node-1",
            "52674dec/DEFAULT/node-2",
            "aedile",
            "__pico/readiness_check/x",
            "c4ca4238a0b923820dcc509a6f75849b/_kafka_picomq/1/1/wal/0-1",
        ] {
            assert_eq!(key_kind(key), KeyKind::Foreign, "{key}");
        }
    }

    proptest! {
        #[test]
        fn key_kind_inverts_object_key(id: u64, bits in 0_u32..64) {
            let id = id >> bits;
            prop_assert_eq!(key_kind(&object_key(id)), KeyKind::Data(id));
        }

        #[test]
        fn only_the_very_key_of_an_id_is_a_data_objects(
            key in "[0-9a-f]{6,17}/(DEFAULT|default|node)/(node-)?[0-9]{1,21}",
        ) {
            if let KeyKind::Data(id) = key_kind(&key) {
                prop_assert_eq!(object_key(id), key);
            }
        }

        #[test]
        fn a_changed_key_is_never_the_same_object(id: u64, at: usize, to in "[0-9a-f/D#.]") {
            let key = object_key(id);
            let at = at % key.len();
            let mut changed = key.clone();
            changed.replace_range(at..=at, &to);
            prop_assume!(changed != key);
            prop_assert_ne!(key_kind(&changed), KeyKind::Data(id));
        }

        #[test]
        fn no_key_panics(key in "\\PC*|([0-9A-Fa-f]{1,33}|_kafka_|wal|DEFAULT|aedile|node-|/|-|_){0,12}") {
            let _ = key_kind(&key);
        }
    }
}
