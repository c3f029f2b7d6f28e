//! Where the compilers of the guest languages are.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folder of this repository.
///
/// # Panics
/// Never: the crate lies below it.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("the crate lies two folders below the top")
        .to_path_buf()
}

/// What `.ci/setup test` installs.
#[derive(Debug)]
pub struct Toolchain;

impl Toolchain {
    /// A C compiler that makes Wasm, with a C library for it.
    ///
    /// # Panics
    /// If there is none.
    pub fn clang() -> PathBuf {
        let clang = on_path("clang").or_else(|| on_path("clang-14"));
        clang.unwrap_or_else(|| {
            absent(
                "clang",
                "apt-get install clang lld wasi-libc libclang-rt-14-dev-wasm32",
            )
        })
    }

    /// The packages of a JavaScript project: its `node_modules`.
    ///
    /// # Panics
    /// If they or Node.js itself are not there.
    pub fn node_modules() -> PathBuf {
        if on_path("node").is_none() {
            absent::<()>(
                "node",
                "install Node.js 20 or newer (apt-get install nodejs npm)",
            );
        }
        let found = toolchains().join("js/node_modules");
        if found.join("@bytecodealliance/componentize-js").is_dir() {
            return found;
        }
        absent("componentize-js", "run `.ci/setup test`, which needs npm")
    }

    /// A Python interpreter that has componentize-py.
    ///
    /// # Panics
    /// If there is none.
    pub fn python() -> PathBuf {
        let bin = toolchains().join("python/bin");
        if bin.join("componentize-py").is_file() {
            return bin.join("python");
        }
        absent(
            "componentize-py",
            "run `.ci/setup test`, which needs python3 with venv",
        )
    }

    /// `cargo build` for `wasm32-unknown-unknown`: with the target's library
    /// where rustup has it, else with Debian's compiler, which builds it.
    ///
    /// # Panics
    /// If there is neither.
    pub fn cargo() -> Command {
        let sysroot = sysroot();
        let mut command;
        if installed() {
            command = Command::new("cargo");
            command.arg("build");
        } else if Path::new("/usr/bin/rustc").is_file()
            && Path::new("/usr/lib/rustlib/src/rust/library/Cargo.lock").is_file()
        {
            command = Command::new("/usr/bin/cargo");
            command.args(["build", "-Zbuild-std=std,panic_abort"]);
            command.env("RUSTC", "/usr/bin/rustc");
            command.env("RUSTC_BOOTSTRAP", "1");
            command.env(
                "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER",
                linker(&sysroot),
            );
        } else {
            return absent(
                "a Rust toolchain for wasm32-unknown-unknown",
                "rustup target add wasm32-unknown-unknown, or on Debian \
                 apt-get install --no-install-recommends rustc-web cargo-web rust-web-src",
            );
        }
        // Those of the build that runs this test are for another target.
        for name in [
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_BUILD_TARGET",
            "RUSTC_WRAPPER",
        ] {
            command.env_remove(name);
        }
        command.args(["--quiet", "--locked", "--release", "--target", TARGET]);
        command.env("CARGO_TARGET_DIR", guests());
        command
    }
}

/// Where guests are built: std is compiled once for all of them.
pub fn guests() -> PathBuf {
    match env::var_os("AEDILE_GUEST_TARGET_DIR") {
        Some(folder) => folder.into(),
        None => root().join("target/guests"),
    }
}

const TARGET: &str = "wasm32-unknown-unknown";

/// Whether the compiler on the path has the library of the target.
pub fn installed() -> bool {
    sysroot()
        .join("lib/rustlib")
        .join(TARGET)
        .join("lib")
        .is_dir()
}

fn sysroot() -> PathBuf {
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]));
    PathBuf::from(sysroot.trim())
}

fn toolchains() -> PathBuf {
    root().join("target/toolchains")
}

/// The linker for Wasm: the compiler's own or the system's.
fn linker(sysroot: &Path) -> PathBuf {
    let host = output(Command::new("rustc").arg("-vV"));
    let host = host
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .expect("rustc names its platform");
    let own = sysroot.join("lib/rustlib").join(host).join("bin/rust-lld");
    if own.is_file() {
        return own;
    }
    let found = on_path("wasm-ld").or_else(|| on_path("wasm-ld-14"));
    found.unwrap_or_else(|| absent("a linker for Wasm", "apt-get install lld"))
}

fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

fn absent<T>(what: &str, how: &str) -> T {
    panic!("{what} is not installed, and a test that needs it does not pass without: {how}")
}

/// What a command prints; it must succeed.
///
/// # Panics
/// If it cannot be started or fails, with all that it said.
pub(crate) fn output(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?} failed\n{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// Run a command that must succeed.
///
/// # Panics
/// If it cannot be started or fails, with all that it said.
pub fn run(command: &mut Command) {
    output(command);
}
