//! The `aedile` binary as a child process.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Names a binary to test instead of the workspace's own.
const VARIABLE: &str = "AEDILE_TEST_BINARY";

/// Path of the binary: the one that `AEDILE_TEST_BINARY` names, else the
/// workspace's, built on first use by the cargo that runs the test.
pub fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(path) = std::env::var_os(VARIABLE) {
            return PathBuf::from(path);
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            // With the features of the whole workspace, as `cargo test --workspace`
            // has them: by itself it would build wasmtime a second time.
            .args(["build", "--quiet", "--workspace", "--bin", "aedile"])
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

/// The binary with nothing of the surroundings that could configure it.
fn command() -> Command {
    let mut command = unconfigured(path());
    command.stdin(Stdio::null());
    command
}

/// A program that begins without whatever here could configure the binary.
pub fn unconfigured(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("AEDILE_") || text.starts_with("AWS_") {
            command.env_remove(name);
        }
    }
    command
}

/// Run the binary to its end.
pub fn run(args: &[&str]) -> Output {
    run_with(args, &[])
}

/// Run the binary to its end with these variables.
pub fn run_with(args: &[&str], variables: &[(&str, &str)]) -> Output {
    command()
        .args(args)
        .envs(variables.iter().copied())
        .output()
        .expect("the binary can be started")
}

/// Run the binary and demand an exit code; returns standard output.
pub fn run_for(code: i32, args: &[&str]) -> String {
    demand(code, args, &run(args))
}

/// Run the binary and demand an exit code; returns its JSON.
pub fn json_for(code: i32, args: &[&str]) -> Value {
    json_with(code, args, &[])
}

/// Run the binary with these variables and demand an exit code; returns its
/// JSON.
pub fn json_with(code: i32, args: &[&str], variables: &[(&str, &str)]) -> Value {
    let stdout = demand(code, args, &run_with(args, variables));
    serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {stdout}"))
}

fn demand(code: i32, args: &[&str], output: &Output) -> String {
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
        Self::start_with(name, dir, args, &[])
    }

    /// The same with variables.
    pub fn start_with(name: &str, dir: &Path, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let log = dir.join(format!("{name}.log"));
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .expect("the log file opens");
        let child = command()
            .args(["run", "--node", name])
            .args(args)
            .envs(variables.iter().copied())
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

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
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
        if std::thread::panicking() {
            eprintln!("-- the log of {}\n{}", self.name, self.log());
        }
        if self.ended().is_none() {
            // A paused child ends too.
            self.signal(Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

/// When a log first said this, in Unix milliseconds, by the time at the head of
/// the line.
pub fn when(log: &str, what: &str) -> Option<i64> {
    times(log, what).next()
}

/// When a log said this, each time.
pub fn times<'a>(log: &'a str, what: &'a str) -> impl Iterator<Item = i64> + 'a {
    log.lines()
        .filter(move |line| line.contains(what))
        .filter_map(|line| unix_millis(line.split_whitespace().next()?))
}

/// `2026-12-02T08:55:33.868193Z` as Unix milliseconds.
fn unix_millis(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut time = time.splitn(3, ':');
    let hours: i64 = time.next()?.parse().ok()?;
    let minutes: i64 = time.next()?.parse().ok()?;
    let seconds: f64 = time.next()?.parse().ok()?;
    // Days since 1970 of a civil date, with years that begin in March.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let days = days - 719_468;
    Some(((days * 24 + hours) * 60 + minutes) * 60_000 + (seconds * 1000.0) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_line_is_read() {
        let log = "2026-12-02T08:55:33.868193Z  INFO aedile: leading epoch=2\n\
                   1970-01-01T00:00:01.500000Z  INFO aedile: stopped\n";
        assert_eq!(when(log, "leading"), Some(1_796_201_733_868));
        assert_eq!(when(log, "stopped"), Some(1500));
        assert_eq!(when(log, "lost"), None);
    }
}
