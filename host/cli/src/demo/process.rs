//! The demo's processes: this binary, started with other arguments.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::demo::layout::Layout;
use crate::demo::writer::{Done, Order};
use crate::settings;

/// This binary with a clean environment: what configures the user's own Aedile
/// must not reach into the demo. The working directory holds no `aedile.toml`.
fn command(layout: &Layout) -> anyhow::Result<Command> {
    let binary = std::env::current_exe().context("this program's own path")?;
    let mut command = Command::new(binary);
    for setting in settings::ALL {
        command.env_remove(setting.env);
    }
    command.current_dir(layout.root()).kill_on_drop(true);
    Ok(command)
}

fn log_file(layout: &Layout, name: &str) -> anyhow::Result<File> {
    let path = layout.logs().join(format!("{name}.log"));
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))
}

/// One node: `aedile run`.
#[derive(Debug)]
pub(crate) struct Node {
    /// Its name.
    pub(crate) name: &'static str,
    child: Child,
}

impl Node {
    /// Start it.
    pub(crate) fn start(layout: &Layout, name: &'static str) -> anyhow::Result<Self> {
        let child = command(layout)?
            .args(["run", "--node", name])
            .args(["--meta-url", &layout.meta_url()])
            .args(["--storage", &layout.storage()])
            .arg("--plugin-dir")
            .arg(layout.plugins())
            .args(["--heartbeat", "2s", "--log-level", "info"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log_file(layout, name)?)
            .spawn()
            .with_context(|| format!("cannot start node {name}"))?;
        Ok(Self { name, child })
    }

    /// Send a signal.
    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = self.child.id().context("the node has ended already")?;
        kill(Pid::from_raw(i32::try_from(pid)?), signal)
            .with_context(|| format!("cannot signal node {}", self.name))
    }

    /// Wait for its end.
    pub(crate) async fn ended(&mut self) -> anyhow::Result<ExitStatus> {
        Ok(self.child.wait().await?)
    }

    /// Whether it has ended.
    pub(crate) fn is_over(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }
}

/// The writer.
#[derive(Debug)]
pub(crate) struct Writer {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Writer {
    /// Start it.
    pub(crate) fn start(layout: &Layout) -> anyhow::Result<Self> {
        let mut child = command(layout)?
            .arg("demo-writer")
            .arg(layout.root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log_file(layout, "writer")?)
            .spawn()
            .context("cannot start the writer")?;
        let orders = child.stdin.take().context("the writer's standard input")?;
        let answers = child
            .stdout
            .take()
            .context("the writer's standard output")?;
        Ok(Self {
            child,
            orders,
            answers: BufReader::new(answers).lines(),
        })
    }

    /// Give an order and wait until it is done.
    pub(crate) async fn order(&mut self, order: Order) -> anyhow::Result<Done> {
        let mut line = serde_json::to_vec(&order)?;
        line.push(b'\n');
        let told = async {
            self.orders.write_all(&line).await?;
            self.orders.flush().await?;
            self.answers.next_line().await
        };
        match told.await {
            Ok(Some(answer)) => Ok(serde_json::from_str(&answer)?),
            Ok(None) | Err(_) => bail!("the writer ended before it was done; its log says why"),
        }
    }

    /// Let it end.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        drop(self.orders);
        self.child.wait().await?;
        Ok(())
    }
}

/// The observer.
#[derive(Debug)]
pub(crate) struct Observer {
    child: Child,
}

impl Observer {
    /// Start it.
    pub(crate) fn start(layout: &Layout) -> anyhow::Result<Self> {
        let child = command(layout)?
            .arg("demo-observer")
            .arg(layout.root())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log_file(layout, "observer")?)
            .spawn()
            .context("cannot start the observer")?;
        Ok(Self { child })
    }

    /// Let it end.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        drop(self.child.stdin.take());
        let status = self.child.wait().await?;
        if !status.success() {
            bail!("the observer failed; its log says why");
        }
        Ok(())
    }
}

/// Let a separate process judge; its standard output.
pub(crate) async fn verdict(layout: &Layout, root: &Path) -> anyhow::Result<Vec<u8>> {
    let output = command(layout)?
        .arg("demo-verdict")
        .arg(root)
        .stdin(Stdio::null())
        .stderr(log_file(layout, "verdict")?)
        .output()
        .await
        .context("cannot start the judging process")?;
    if output.stdout.is_empty() {
        bail!(
            "the judging process failed; {} says why",
            layout.logs().join("verdict.log").display()
        );
    }
    Ok(output.stdout)
}
