//! What can be said of signatures, registries and bundles: `aedile plugin
//! verify`, `push`, `pull`, `export` and `import`.

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, Command};

use super::named;
use crate::settings as s;

/// Where modules come from and go to: signatures and registries.
pub(super) fn commands() -> [Command; 5] {
    let module = || {
        Arg::new("file")
            .value_name("FILE")
            .required(true)
            .value_parser(ValueParser::path_buf())
            .help("The module")
    };
    let reference = |help: &'static str| {
        Arg::new("reference")
            .value_name("oci://REGISTRY/REPOSITORY:TAG")
            .required(true)
            .help(help)
    };
    let bundle = |help: &'static str| {
        Arg::new("bundle")
            .value_name("FILE")
            .required(true)
            .value_parser(ValueParser::path_buf())
            .help(help)
    };
    [
        named("export", &[s::META_URL, s::STORAGE, s::JSON])
            .about("Write a deployed plugin to one file, for a site without a network")
            .long_about(
                "Write a deployed plugin to one file: its module, its signature, and how it is to \
                 run. The file is a tar archive; size and SHA-256 of each part are in it. A file \
                 that is there is not overwritten.",
            )
            .arg(
                Arg::new("name")
                    .value_name("NAME")
                    .required(true)
                    .help("The plugin, as `aedile plugin list` names it"),
            )
            .arg(bundle("The new file"))
            .after_long_help(
                "Example:\n  aedile plugin export kv-ttl kv-ttl.tar\n  \
                 aedile plugin import kv-ttl.tar       at the other site",
            ),
        named(
            "import",
            &[
                s::META_URL,
                s::STORAGE,
                s::WHO,
                s::WHY,
                s::TRUSTED_KEYS,
                s::REQUIRE_SIGNATURE,
                s::JSON,
            ],
        )
        .arg(s::arg(&s::GRANT).action(ArgAction::Append))
        .arg(s::arg(&s::KV_PREFIX).action(ArgAction::Append))
        .arg(super::control::wait())
        .about("Deploy the plugin of a file that `export` wrote")
        .long_about(
            "Deploy the plugin of a file that `aedile plugin export` wrote, with the settings it \
             had there. All of it is checked as a deploy is, before anything is written. What is \
             destructive and was granted there has to be granted here again, by name.",
        )
        .arg(bundle("The file"))
        .after_long_help(
            "Example:\n  aedile plugin import retention.tar --grant commands.trim-stream",
        ),
        named("verify", &[s::TRUSTED_KEYS, s::SIGN_FILE, s::JSON])
            .about("Check a module's signature against the trusted keys")
            .long_about(
                "Check the minisign signature of a module against the trusted keys, as a deploy \
                 and every node do. A module that is not signed, or not with one of these keys, \
                 or was changed since, ends with exit code 6.",
            )
            .arg(module())
            .after_long_help(
                "Example:\n  minisign -S -m kv_ttl.wasm\n  \
                 aedile plugin verify kv_ttl.wasm --trusted-keys minisign.pub",
            ),
        named(
            "push",
            &[
                s::TRUSTED_KEYS,
                s::SIGN_FILE,
                s::PLAIN_HTTP,
                s::REGISTRY_USER,
                s::REGISTRY_PASSWORD,
                s::JSON,
            ],
        )
        .about("Push a module to a registry, with its signature")
        .long_about(
            "Push a module to an OCI registry, in the CNCF's layout for Wasm: a config \
             application/vnd.wasm.config.v0+json and one layer application/wasm. Its signature \
             goes with it as an annotation. The module is checked as a node would before; the \
             same module gives the same digest, which is printed.",
        )
        .arg(module())
        .arg(reference("Where to: a registry, a repository and a tag"))
        .after_long_help(
            "Example:\n  aedile plugin push kv_ttl.wasm oci://ghcr.io/example/kv-ttl:0.1.0",
        ),
        named(
            "pull",
            &[
                s::TRUSTED_KEYS,
                s::REQUIRE_SIGNATURE,
                s::OUTPUT,
                s::PLAIN_HTTP,
                s::REGISTRY_USER,
                s::REGISTRY_PASSWORD,
                s::JSON,
            ],
        )
        .about("Pull a module from a registry into a file, with its signature")
        .long_about(
            "Pull a module from an OCI registry into a file, and its signature beside it. A tag \
             is resolved once; the digest that it named is printed. An artifact of another layout \
             is refused, with the media types that were found.",
        )
        .arg(reference("Where from: a tag, or @sha256: and a digest"))
        .after_long_help("Example:\n  aedile plugin pull oci://ghcr.io/example/kv-ttl:0.1.0"),
    ]
}
