//! Modules through a real registry: what is pulled is what was pushed, and
//! everything else is refused by what was found.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::SystemClock;
use aedile_supply::{
    Credentials, OciReference, Package, Pulled, Registry, RegistryOptions, SupplyError,
    SupplyErrorKind, Trust, TrustedKeys, Verdict, sha256_hex,
};
use aedile_tests_contract::registry::{self, Registry as Server};
use aedile_tests_contract::signer::Signer;
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::secrets::RegistryAuth;
use serde_json::{Value, json};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
const LAYER: &str = "application/wasm";

fn options() -> RegistryOptions {
    RegistryOptions {
        plain_http: true,
        ..RegistryOptions::default()
    }
}

fn client(options: RegistryOptions) -> Registry {
    Registry::new(options, Arc::new(SystemClock)).expect("a client")
}

fn at(server: &Server, rest: &str) -> OciReference {
    server.reference(rest).parse().expect("a reference")
}

/// A core module of this content; nothing here looks further into it.
fn package(content: &str) -> Package {
    Package {
        module: [b"\0asm\x01\0\0\0", content.as_bytes()].concat(),
        title: "kv-ttl".to_owned(),
        version: "0.1.0".to_owned(),
        description: "Removes keys".to_owned(),
        signature: None,
    }
}

async fn refused(client: &Registry, reference: &OciReference) -> SupplyError {
    match client.pull(reference).await {
        Err(error) => error,
        Ok(pulled) => panic!("{reference} must be refused: {pulled:?}"),
    }
}

#[tokio::test]
async fn what_is_pulled_is_what_was_pushed() {
    let server = Server::start();
    let client = client(options());
    let signer = Signer::new();
    for (name, size) in [("small", 10), ("large", 9 << 20)] {
        let mut package = package(&"x".repeat(size));
        package.signature = Some(signer.sign(&package.module, "kv-ttl 0.1.0"));
        let tag = at(&server, &format!("team/{name}:0.1.0"));
        let pinned = client.push(&tag, &package).await.expect("pushed");
        assert!(pinned.is_pinned());
        for reference in [&tag, &pinned] {
            let Pulled {
                reference,
                module,
                digest,
                signature,
                title,
                version,
            } = client.pull(reference).await.expect("pulled");
            assert_eq!(reference, pinned);
            assert!(module == package.module);
            assert_eq!(digest, sha256_hex(&module));
            assert_eq!(signature, package.signature);
            assert_eq!(title.as_deref(), Some("kv-ttl"));
            assert_eq!(version.as_deref(), Some("0.1.0"));
            let keys = TrustedKeys::parse(&signer.public_key()).expect("keys");
            let trust = Trust::new(keys, true).expect("a rule");
            let verdict = trust
                .check(&module, signature.as_deref())
                .expect("it holds");
            assert!(matches!(verdict, Verdict::Signed { .. }), "{verdict}");
        }
        // The same again is the same.
        assert_eq!(client.push(&tag, &package).await.expect("pushed"), pinned);
    }
}

#[tokio::test]
async fn istio_37463_a_tag_that_moves_changes_nothing_that_was_pulled() {
    let server = Server::start();
    let client = client(options());
    let tag = at(&server, "kv-ttl:latest");
    client.push(&tag, &package("first")).await.expect("pushed");
    let first = client.pull(&tag).await.expect("pulled");
    client.push(&tag, &package("second")).await.expect("moved");
    let second = client.pull(&tag).await.expect("pulled");
    assert_ne!(first.digest, second.digest);
    assert_ne!(first.reference, second.reference);
    // What was noted of the first still names the first.
    assert_eq!(client.pull(&first.reference).await.expect("there"), first);
}

/// Push a manifest that is not ours, as other tools do.
async fn push_foreign(server: &Server, rest: &str, kind: &str, manifest: &Value) -> OciReference {
    let config = ClientConfig {
        protocol: ClientProtocol::Http,
        ..ClientConfig::default()
    };
    let client = oci_client::Client::try_from(config).expect("a client");
    let reference = format!("{}/{rest}", server.address())
        .parse()
        .expect("a reference");
    let auth = RegistryAuth::Anonymous;
    client.store_auth_if_needed(server.address(), &auth).await;
    // Every blob that a manifest may name below.
    let digest = format!("sha256:{}", sha256_hex(b"{}"));
    client
        .push_blob(&reference, b"{}".to_vec(), &digest)
        .await
        .expect("pushed");
    let bytes = serde_json::to_vec(manifest).expect("JSON");
    let kind = kind.parse().expect("a header");
    client
        .push_manifest_raw(&reference, bytes, kind)
        .await
        .expect("pushed");
    at(server, rest)
}

fn descriptor(kind: &str) -> Value {
    json!({ "mediaType": kind, "digest": format!("sha256:{}", sha256_hex(b"{}")), "size": 2 })
}

#[tokio::test]
async fn higress_4528_a_layout_that_is_not_ours_is_named_by_its_types() {
    let server = Server::start();
    let client = client(options());
    let image = "application/vnd.oci.image.config.v1+json";
    let old = "application/vnd.module.wasm.content.layer.v1+wasm";
    let archive = "application/vnd.oci.image.layer.v1.tar+gzip";
    let of = |config: &str, layers: &[&str]| {
        let layers: Vec<_> = layers.iter().map(|kind| descriptor(kind)).collect();
        json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": descriptor(config), "layers": layers })
    };
    for (name, config, layers) in [
        (
            "three",
            image,
            &["text/markdown", "application/json", archive][..],
        ),
        (
            "old",
            "application/vnd.module.wasm.config.v1+json",
            &[old][..],
        ),
        ("image", image, &[archive][..]),
        ("two", CONFIG, &[LAYER, LAYER][..]),
    ] {
        let rest = format!("{name}:1");
        let reference = push_foreign(&server, &rest, MANIFEST, &of(config, layers)).await;
        let error = refused(&client, &reference).await;
        assert!(matches!(error, SupplyError::Layout { .. }), "{error}");
        assert_eq!(error.kind(), SupplyErrorKind::Refused);
        let text = error.to_string();
        let (found, expected) = text.split_once("expected").expect("both are told");
        assert!(found.contains(config), "{text}");
        assert!(layers.iter().all(|layer| found.contains(layer)), "{text}");
        assert!(
            expected.contains(CONFIG) && expected.contains(LAYER),
            "{text}"
        );
    }
    // An index of several platforms is none either.
    let index = "application/vnd.oci.image.index.v1+json";
    let manifest = json!({ "schemaVersion": 2, "mediaType": index, "manifests": [] });
    let reference = push_foreign(&server, "index:1", index, &manifest).await;
    let text = refused(&client, &reference).await.to_string();
    assert!(
        text.contains(&format!("found a manifest {index}")),
        "{text}"
    );
}

#[tokio::test]
async fn a_changed_byte_is_found() {
    let server = Server::start();
    let client = client(options());
    let package = package("content");
    let tag = at(&server, "kv-ttl:1");
    let pinned = client.push(&tag, &package).await.expect("pushed");
    let blob = server.blob(&sha256_hex(&package.module));
    let good = std::fs::read(&blob).expect("the registry's file");
    assert_eq!(good, package.module);
    let mut flipped = good.clone();
    flipped[12] ^= 1;
    let longer = [&good[..], b"and more"].concat();
    for (name, bytes) in [
        ("flipped", &flipped[..]),
        ("longer", &longer),
        ("shorter", &good[..9]),
        ("empty", &[]),
    ] {
        std::fs::write(&blob, bytes).expect("changed");
        let error = refused(&client, &tag).await;
        assert_eq!(error.kind(), SupplyErrorKind::Refused, "{name}: {error}");
        assert!(error.to_string().contains("sha256:"), "{name}: {error}");
    }
    std::fs::write(&blob, &good).expect("restored");
    client.pull(&tag).await.expect("whole again");
    // The manifest itself.
    let hex = pinned
        .digest()
        .and_then(|digest| digest.strip_prefix("sha256:"));
    let manifest = server.blob(hex.expect("pinned"));
    let text = std::fs::read_to_string(&manifest).expect("a manifest");
    std::fs::write(&manifest, text.replace("kv-ttl", "kv-tt1")).expect("changed");
    let error = refused(&client, &pinned).await;
    assert_ne!(error.kind(), SupplyErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn a_module_over_the_limit_is_not_fetched() {
    let server = Server::start();
    let tag = at(&server, "kv-ttl:1");
    let package = package("content");
    client(options())
        .push(&tag, &package)
        .await
        .expect("pushed");
    // That it is not fetched: what is there could not be.
    std::fs::remove_file(server.blob(&sha256_hex(&package.module))).expect("gone");
    let small = client(RegistryOptions {
        max_module: 14,
        ..options()
    });
    let text = refused(&small, &tag).await.to_string();
    assert!(text.contains("has 15 bytes; the limit is 14"), "{text}");
}

#[tokio::test]
async fn istio_53279_a_registry_that_is_down_says_so_and_is_worth_a_retry() {
    let mut server = Server::start();
    let client = client(RegistryOptions {
        timeout: Duration::from_secs(1),
        ..options()
    });
    let missing = refused(&client, &at(&server, "kv-ttl:1")).await;
    assert_eq!(missing.kind(), SupplyErrorKind::Missing, "{missing}");
    server.stop();
    let down = refused(&client, &at(&server, "kv-ttl:1")).await;
    assert_eq!(down.kind(), SupplyErrorKind::Unavailable, "{down}");
    assert!(down.to_string().contains(server.address()), "{down}");
    // One that takes the connection and says nothing.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = silent.local_addr().expect("an address");
    let reference: OciReference = format!("oci://{address}/kv-ttl:1").parse().expect("one");
    let hangs = refused(&client, &reference).await;
    assert_eq!(hangs.kind(), SupplyErrorKind::Unavailable, "{hangs}");
    // TLS is spoken unless it is said not to be.
    let server = Server::start();
    let tls = with_tls();
    let error = refused(&tls, &at(&server, "kv-ttl:1")).await;
    assert_eq!(error.kind(), SupplyErrorKind::Unavailable, "{error}");
}

fn with_tls() -> Registry {
    client(RegistryOptions {
        plain_http: false,
        ..options()
    })
}

#[tokio::test]
async fn a_registry_with_users_lets_in_who_has_the_password() {
    let server = Server::start_with_users();
    let tag = at(&server, "team/kv-ttl:1");
    let as_user = |password: &str| RegistryOptions {
        credentials: Some(Credentials {
            user: registry::USER.to_owned(),
            password: password.to_owned(),
        }),
        ..options()
    };
    for options in [options(), as_user("wrong password")] {
        let client = client(options);
        let push = client.push(&tag, &package("x")).await.expect_err("denied");
        let pull = refused(&client, &tag).await;
        for error in [push, pull] {
            assert_eq!(error.kind(), SupplyErrorKind::Denied, "{error}");
            let text = error.to_string();
            assert!(
                text.contains("team/kv-ttl") && !text.contains("wrong password"),
                "{text}"
            );
        }
    }
    let known = client(as_user(registry::PASSWORD));
    let pinned = known.push(&tag, &package("x")).await.expect("let in");
    // What `docker login` notes does as well.
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("config.json");
    let auth = "YW5uYTpvcGVuIHNlc2FtZQ==";
    let note = json!({ "auths": { server.address(): { "auth": auth } } });
    std::fs::write(&path, note.to_string()).expect("written");
    let noted = client(RegistryOptions {
        docker_config: Some(path),
        ..options()
    });
    let pulled = noted.pull(&pinned).await.expect("let in");
    assert_eq!(pulled.reference, pinned);
}

#[tokio::test]
async fn a_push_needs_a_tag_and_a_module() {
    let server = Server::start();
    let client = client(options());
    let digest = format!("kv-ttl@sha256:{}", "0".repeat(64));
    let error = client
        .push(&at(&server, &digest), &package("x"))
        .await
        .expect_err("no tag");
    assert_eq!(error.kind(), SupplyErrorKind::Configuration, "{error}");
    let none = Package {
        module: b"#!/bin/sh".to_vec(),
        ..package("")
    };
    let error = client
        .push(&at(&server, "kv-ttl:1"), &none)
        .await
        .expect_err("no module");
    assert!(matches!(error, SupplyError::NotWasm { .. }), "{error}");
    let unsigned = Package {
        signature: Some("nothing of the kind".to_owned()),
        ..package("x")
    };
    let error = client
        .push(&at(&server, "kv-ttl:1"), &unsigned)
        .await
        .expect_err("no signature");
    assert!(matches!(error, SupplyError::BadSignature { .. }), "{error}");
}
