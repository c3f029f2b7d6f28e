//! Keys and signatures as the tool itself made them (tests/data).

use proptest::prelude::*;

use super::*;
use crate::SupplyErrorKind;

const MODULE: &[u8] = include_bytes!("../../tests/data/module.wasm");
const SIGNATURE: &str = include_str!("../../tests/data/module.wasm.minisig");
const LEGACY: &str = include_str!("../../tests/data/legacy.minisig");
const OTHER_SIGNATURE: &str = include_str!("../../tests/data/other.minisig");
const KEY: &str = "RWTgmxZaMivxHC2IZYvMHOERPIuNCWBSBnNdZ+DZCJLAa5GieNorBgtA";
const OTHER_KEY: &str = "RWSFRtHMvbSrbn6Uz9B01/mPa3zOIJx5U7cDMsMWGuN+pcXPDd06+IBT";

fn data(name: &str) -> String {
    format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn trust(keys: &str, required: bool) -> Trust {
    let keys = TrustedKeys::parse(keys).expect("keys");
    Trust::new(keys, required).expect("a rule")
}

fn refused(trust: &Trust, module: &[u8], signature: Option<&str>) -> SupplyError {
    trust
        .check(module, signature)
        .expect_err("it must be refused")
}

#[test]
fn a_signature_of_a_trusted_key_holds() {
    for keys in [
        KEY.to_owned(),
        format!("{OTHER_KEY}, {KEY}"),
        data("key.pub"),
        format!("{OTHER_KEY},{}", data("key.pub")),
    ] {
        for required in [false, true] {
            let verdict = trust(&keys, required)
                .check(MODULE, Some(SIGNATURE))
                .expect("it holds");
            assert_eq!(
                verdict.to_string(),
                "signed with the trusted key 1CF12B325A169BE0: kv-ttl 0.1.0 for the tests"
            );
        }
    }
}

#[test]
fn the_table_of_the_rule() {
    let none = Trust::default();
    assert_eq!(none.check(MODULE, None).expect("ok"), Verdict::Unchecked);
    assert_eq!(
        none.check(MODULE, Some(SIGNATURE)).expect("ok"),
        Verdict::Unchecked
    );
    let some = trust(KEY, false);
    assert_eq!(some.check(MODULE, None).expect("ok"), Verdict::Unsigned);
    let strict = trust(KEY, true);
    let error = refused(&strict, MODULE, None);
    assert!(matches!(error, SupplyError::Unsigned { .. }), "{error}");
    assert!(error.to_string().contains("1CF12B325A169BE0"), "{error}");
    assert_eq!(error.kind(), SupplyErrorKind::Refused);
}

#[test]
fn a_wrong_signature_is_never_taken_for_none() {
    let some = trust(KEY, false);
    let mut changed = MODULE.to_vec();
    changed[9] ^= 1;
    for (module, signature, expect) in [
        (&changed[..], SIGNATURE, "does not fit the module"),
        (
            MODULE,
            OTHER_SIGNATURE,
            "6EABB4BDCCD14685, which is not trusted",
        ),
        (MODULE, LEGACY, "legacy form"),
        (MODULE, "", "fewer than the four lines"),
        (MODULE, "a\nb\nc\nd\n", "a line of it is malformed"),
    ] {
        let error = refused(&some, module, Some(signature)).to_string();
        assert!(error.contains(expect), "{error}");
    }
    let more = format!("{SIGNATURE}and more\n");
    let error = refused(&some, MODULE, Some(&more)).to_string();
    assert!(error.contains("follows its fourth line"), "{error}");
}

#[test]
fn the_comment_is_signed_too() {
    let forged = SIGNATURE.replace("kv-ttl 0.1.0", "kv-ttl 9.9.9");
    let error = refused(&trust(KEY, false), MODULE, Some(&forged));
    assert!(
        matches!(error, SupplyError::WrongSignature { .. }),
        "{error}"
    );
}

#[test]
fn an_id_that_another_key_has_proves_nothing() {
    // The other key's bytes under the trusted key's id.
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let mut key = STANDARD.decode(OTHER_KEY).expect("base64");
    key[2..10].copy_from_slice(&STANDARD.decode(KEY).expect("base64")[2..10]);
    let twin = STANDARD.encode(key);
    let error = refused(&trust(&twin, false), MODULE, Some(SIGNATURE));
    assert!(
        matches!(error, SupplyError::WrongSignature { .. }),
        "{error}"
    );
    // Beside the right one it does no harm.
    let both = trust(&format!("{twin},{KEY}"), true);
    assert!(both.check(MODULE, Some(SIGNATURE)).is_ok());
}

#[test]
fn a_required_signature_needs_a_key() {
    let error = Trust::new(TrustedKeys::default(), true).expect_err("nothing could run");
    assert_eq!(error.kind(), SupplyErrorKind::Configuration);
}

#[test]
fn keys_that_are_none_are_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let broken = file("broken.pub", &format!("# ours\n{KEY}\nRWnonsense\n"));
    let empty = file("empty.pub", "untrusted comment: nothing\n\n");
    let signature = data("module.wasm.minisig");
    let flipped = KEY.replace("RW", "RX");
    for (text, expect) in [
        (&KEY[..50], "not the base64 of 42 bytes"),
        ("/there/is/none.pub", "cannot be read"),
        (&broken, "broken.pub:3`"),
        (&empty, "the file holds no key"),
        (&signature, "not the base64 of 42 bytes"),
        (&flipped, "cannot be read"),
    ] {
        let error = TrustedKeys::parse(text).expect_err(text);
        assert!(error.to_string().contains(expect), "{text}: {error}");
        assert_eq!(error.kind(), SupplyErrorKind::Configuration);
    }
    assert!(TrustedKeys::parse(" , ,").expect("nothing").is_empty());
}

#[test]
fn a_key_that_is_given_twice_counts_once() {
    let keys = TrustedKeys::parse(&format!("{KEY},{},{KEY}", data("key.pub"))).expect("keys");
    assert_eq!(keys.ids().count(), 1);
}

#[test]
fn a_signature_is_read_from_its_file() {
    let read = |name: &str| read_signature(Path::new(&data(name)));
    assert_eq!(read("module.wasm.minisig").expect("a signature"), SIGNATURE);
    for (name, expect) in [
        ("module.wasm", "no minisign signature"),
        ("key.pub", "fewer than the four lines"),
        ("missing", "cannot be read"),
    ] {
        let error = read(name).expect_err(name).to_string();
        assert!(error.contains(expect), "{name}: {error}");
    }
}

#[test]
fn a_comment_cannot_write_to_the_terminal() {
    let text = SIGNATURE.replace("for the tests", "\u{1b}[2J\u{7}");
    let signature = Signature::parse(&text, "x").expect("well formed");
    assert_eq!(signature.comment(), "kv-ttl 0.1.0 \\u{1b}[2J\\u{7}");
}

proptest! {
    #[test]
    fn no_text_makes_it_panic_and_none_but_the_right_one_holds(text in "\\PC{0,200}", at in 0usize..400, byte in any::<u8>()) {
        let rule = trust(KEY, false);
        prop_assert!(rule.check(MODULE, Some(&text)).is_err());
        let _ = TrustedKeys::parse(&text);
        let mut bytes = SIGNATURE.as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(changed) = String::from_utf8(bytes)
            && rule.check(MODULE, Some(&changed)).is_ok()
        {
            // Only what is not signed may differ: the first line, line ends.
            let signed = |text: &str| {
                let lines: Vec<_> = text.lines().skip(1).map(|line| line.trim_end().to_owned()).collect();
                lines
            };
            prop_assert_eq!(signed(&changed), signed(SIGNATURE));
        }
    }
}
