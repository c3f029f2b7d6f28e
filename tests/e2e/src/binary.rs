//! The `aedile` binary as a child process.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Path of the binary, built on first use by the cargo that runs the test.
pub fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--quiet", "-p", "aedile", "--bin", "aedile"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .expect("cargo can be started");
        assert!(status.success(), "the aedile binary must build");
        // target/<profile>/deps/<test> → target/<profile>/aedile
        let test = std::env::current_exe().expect("a test knows its own path");
        let path = test
            .ancestors()
            .nth(2)
            .expect("a test lies two folders deep")
            .join("aedile");
        assert!(path.is_file(), "{} is missing", path.display());
        path
    })
}

/// Run the binary to its end.
pub fn run(args: &[&str]) -> Output {
    Command::new(path())
        .args(args)
        .env_remove("AEDILE_CONFIG")
        .stdin(Stdio::null())
        .output()
        .expect("the binary can be started")
}

/// Run the binary and demand an exit code; returns standard output.
pub fn run_for(code: i32, args: &[&str]) -> String {
    let output = run(args);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        output.status.code(),
        Some(code),
        "aedile {args:?}\n-- stdout\n{stdout}\n-- stderr\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    stdout
}

/// A node that runs until it is ended; dropped, it is killed.
#[derive(Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    child: Child,
    log: PathBuf,
}

impl Node {
    /// Start `aedile run` with these arguments. Its log goes to
    /// `<dir>/<name>.log`.
    pub fn start(name: &str, dir: &Path, args: &[&str]) -> Self {
        let log = dir.join(format!("{name}.log"));
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .expect("the log file opens");
        let child = Command::new(path())
            .args(["run", "--node", name])
            .args(args)
            .env_remove("AEDILE_CONFIG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .expect("the binary can be started");
        Self {
            name: name.to_owned(),
            child,
            log,
        }
    }

    /// Send a signal to this node alone.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id fits");
        kill(Pid::from_raw(pid), signal).expect("our own child takes a signal");
    }

    /// Kill it as a crash does.
    pub fn crash(&mut self) {
        self.signal(Signal::SIGKILL);
        self.child.wait().expect("a killed child ends");
    }

    /// Ask it to stop and wait for its exit code.
    pub fn stop(&mut self) -> Option<i32> {
        self.signal(Signal::SIGTERM);
        self.child.wait().expect("a stopped child ends").code()
    }

    /// Its exit code, if it has ended.
    pub fn ended(&mut self) -> Option<Option<i32>> {
        self.child
            .try_wait()
            .expect("our own child can be asked")
            .map(|status| status.code())
    }

    /// Everything that it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.ended().is_none() {
            // A paused child ends too.
            self.signal(Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}
