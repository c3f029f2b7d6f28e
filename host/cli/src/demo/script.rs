//! What happens in the demo, in order.

use std::path::PathBuf;
use std::time::Duration;

use aedile_clock::SharedClock;
use aedile_lease::LeaseOptions;
use aedile_storage::object_key;
use anyhow::{Context, bail};
use nix::sys::signal::Signal;

use crate::builtins;
use crate::demo::layout::Layout;
use crate::demo::process::{Node, Observer, Writer};
use crate::demo::progress::Progress;
use crate::demo::records::{Appender, Deed, DeedKind};
use crate::demo::scene::{LOOK, Scene};
use crate::demo::writer::{Done, Order};
use crate::demo::{LAPSE, SESSIONS};
use crate::output::figures::{grouped, short, span};
use crate::version;

const NODES: [&str; 3] = ["anna", "bruno", "clara"];
/// Objects of the stream that is deleted just before the kill: enough that the
/// killer comes before the drain is over.
const BACKLOG: u32 = 3_000;
/// How long anything may take before the demo goes on without it.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often the killer looks whether the drain has begun.
const HUNT: Duration = Duration::from_millis(1);
/// The plugin as a file, and its settings beside it.
const PLUGIN: &str = "kv_ttl";
const SETTINGS: &str =
    "grants = [\"state\", \"metrics\", \"commands.put-kv\", \"commands.delete-kv\"]
kv-prefixes = [\"demo/session/\"]

[config]
rules = [{ prefix = \"demo/session/\", ttl = \"2s\" }]
";

/// Play it. Whatever does not come is said and left to the verdict.
pub(crate) async fn play(
    layout: &Layout,
    clock: SharedClock,
    progress: Progress,
) -> anyhow::Result<()> {
    let ttl = LeaseOptions::default().ttl;
    let scene = Scene::open(layout, clock, progress, ttl).await?;
    let mut play = Play {
        layout,
        scene,
        deeds: Appender::open(&layout.deeds())?,
        writer: Writer::start(layout)?,
        nodes: Vec::new(),
        ttl,
        told: None,
    };
    let observer = Observer::start(layout)?;
    for line in [
        format!("database {}", layout.database().display()),
        format!("objects  {}", layout.objects().display()),
        format!(
            "{} nodes contend for one lease of {}; one leads and works, a writer makes work",
            NODES.len(),
            span(ttl)
        ),
    ] {
        play.scene.progress.event(&line);
    }
    if version::WITHOUT_GUARD {
        play.scene
            .progress
            .bad("this build has no guard: a live object will be lost");
    }
    play.order(Order::Seed).await?;
    play.start_nodes().await?;
    play.first_drain().await?;
    play.kill_in_mid_drain().await?;
    play.drop_plugin().await?;
    play.after_crash().await?;
    play.clean_stop().await?;
    play.swap().await?;
    play.settle().await?;
    play.end(observer).await
}

struct Play<'a> {
    layout: &'a Layout,
    scene: Scene,
    deeds: Appender<Deed>,
    writer: Writer,
    nodes: Vec<Node>,
    ttl: Duration,
    /// The leader that was last told of: name and epoch.
    told: Option<(&'static str, u64)>,
}

impl Play<'_> {
    /// Give the writer an order and tell what it did; the figures go on.
    async fn order(&mut self, order: Order) -> anyhow::Result<Done> {
        let done = {
            let mut work = std::pin::pin!(self.writer.order(order));
            loop {
                tokio::select! {
                    done = &mut work => break done?,
                    () = self.scene.clock.sleep(LOOK) => self.scene.show().await?,
                }
            }
        };
        self.scene.progress.event(&format!("writer: {}", done.text));
        Ok(done)
    }

    async fn start_nodes(&mut self) -> anyhow::Result<()> {
        for name in NODES {
            self.nodes.push(Node::start(self.layout, name)?);
        }
        self.scene
            .progress
            .event(&format!("three nodes started: {}", NODES.join(", ")));
        self.leader("a first leader", PATIENCE).await?;
        Ok(())
    }

    /// Wait for a leader among the nodes that are up and say who it is.
    async fn leader(
        &mut self,
        what: &str,
        bound: Duration,
    ) -> anyhow::Result<Option<(&'static str, u64)>> {
        let names: Vec<&'static str> = self.nodes.iter().map(|node| node.name).collect();
        let found = self
            .scene
            .wait(what, bound, async |scene| {
                let lease = scene.lease().await?;
                Ok(lease
                    .node(names.iter().copied())
                    .map(|name| (name, lease.epoch)))
            })
            .await?;
        let leader = found
            .and_then(|(name, epoch)| Some((NODES.into_iter().find(|node| *node == name)?, epoch)));
        if let Some((name, epoch)) = leader
            && self.told != leader
        {
            self.told = leader;
            let text = format!("{name} leads, epoch {epoch}");
            self.scene.progress.good(&text);
        }
        for node in &mut self.nodes {
            if node.is_over()? {
                bail!("node {} ended by itself; its log says why", node.name);
            }
        }
        Ok(leader)
    }

    /// The seed's leftovers: marks, abandoned uploads.
    async fn first_drain(&mut self) -> anyhow::Result<()> {
        self.scene
            .wait(
                "the destroyed queue is drained but for the conflict",
                PATIENCE,
                async |scene| Ok((scene.state().counts().marks <= 1).then_some(())),
            )
            .await?;
        self.scene
            .progress
            .event("destroyed objects have left storage; the mark that names a live object stays");
        Ok(())
    }

    /// Delete a large stream and kill the leader once bytes begin to go.
    async fn kill_in_mid_drain(&mut self) -> anyhow::Result<()> {
        let filled = self.order(Order::Fill { objects: BACKLOG }).await?;
        let paths: Vec<PathBuf> = filled
            .ids
            .iter()
            .map(|id| self.layout.objects().join(object_key(*id)))
            .collect();
        let Some((leader, epoch)) = self.leader("a leader to kill", PATIENCE).await? else {
            return Ok(());
        };
        self.order(Order::Destroy).await?;
        // A few of them, spread over the whole: looking at all would take too long.
        let sample: Vec<&PathBuf> = paths
            .iter()
            .step_by(paths.len().div_ceil(64).max(1))
            .collect();
        let clock = self.scene.clock.clone();
        let end = clock.boot() + PATIENCE;
        while sample.iter().all(|path| path.exists()) && clock.boot() < end {
            clock.sleep(HUNT).await;
        }
        let node = self
            .nodes
            .iter_mut()
            .find(|node| node.name == leader)
            .context("the leader is one of ours")?;
        // Read before the kill: the takeover is measured a little too long.
        let at = self.scene.now().await?;
        node.signal(Signal::SIGKILL)?;
        node.ended().await?;
        self.nodes.retain(|node| node.name != leader);
        let left = paths.iter().filter(|path| path.exists()).count() as u64;
        self.note(at, DeedKind::Kill, leader, epoch, left)?;
        self.scene.progress.deed(&format!(
            "SIGKILL {leader} in mid-drain: {} of {} destroyed objects still in storage; it is not restarted",
            grouped(left),
            grouped(paths.len() as u64)
        ));
        self.scene.progress.event(&format!(
            "its lease has to run out first: a successor within {} at the latest",
            span(self.ttl + self.ttl / 4)
        ));
        Ok(())
    }

    fn note(
        &mut self,
        at: i64,
        deed: DeedKind,
        node: &str,
        epoch: u64,
        left: u64,
    ) -> anyhow::Result<()> {
        let node = node.to_owned();
        self.deeds.append([&Deed {
            at,
            deed,
            node,
            epoch,
            left,
        }])
    }

    /// A plugin of the user's own, dropped in while the nodes run.
    async fn drop_plugin(&mut self) -> anyhow::Result<()> {
        self.put(&format!("{PLUGIN}.toml"), SETTINGS.as_bytes())?;
        self.put(&format!("{PLUGIN}.wasm"), builtins::KV_TTL)?;
        self.scene.progress.deed(&format!(
            "{PLUGIN}.wasm dropped into {} (keys below {SESSIONS} live 2 s)",
            self.layout.plugins().display()
        ));
        self.await_plugin(None).await
    }

    /// Wait until every node that is up shows the plugin, other than `before`.
    async fn await_plugin(&mut self, before: Option<&str>) -> anyhow::Result<()> {
        let names: Vec<&'static str> = self.nodes.iter().map(|node| node.name).collect();
        for name in names {
            let shown = self
                .scene
                .wait(
                    &format!("{name} runs the plugin"),
                    PATIENCE,
                    async |scene| {
                        let plugin = scene.plugin(name, "kv-ttl").await?;
                        Ok(plugin.filter(|(_, digest)| Some(digest.as_str()) != before))
                    },
                )
                .await?;
            if let Some((version, digest)) = shown {
                let text = format!(
                    "{name} has kv-ttl {version} ({}), without a restart",
                    short(&digest)
                );
                self.scene.progress.good(&text);
            }
        }
        Ok(())
    }

    /// Copy a file as one should: whole, then renamed into place.
    fn put(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let target = self.layout.plugins().join(name);
        let part = self.layout.root().join(format!("{name}.part"));
        std::fs::write(&part, bytes)?;
        std::fs::rename(&part, &target)
            .with_context(|| format!("cannot write {}", target.display()))
    }

    /// Wait for the killed leader's lease to run out and its successor to finish
    /// the drain.
    async fn after_crash(&mut self) -> anyhow::Result<()> {
        self.leader("a successor of the killed leader", self.ttl * 2)
            .await?;
        self.scene
            .wait("the successor drains the rest", PATIENCE, async |scene| {
                // The writer goes on all the while: some marks are always new.
                Ok((scene.state().counts().marks <= 16).then_some(()))
            })
            .await?;
        self.scene
            .progress
            .event("the successor has drained what the killed leader left");
        self.sessions_gone().await
    }

    async fn sessions_gone(&mut self) -> anyhow::Result<()> {
        let seeded = format!("{SESSIONS}0");
        let gone = self
            .scene
            .wait("the plugin deletes old keys", PATIENCE, async |scene| {
                Ok(scene
                    .state()
                    .kv_scan(&seeded, None)
                    .next()
                    .is_none()
                    .then_some(()))
            })
            .await?;
        if gone.is_some() {
            self.scene
                .progress
                .good("the plugin has deleted the old session keys");
        }
        Ok(())
    }

    /// Stop the leader as an operator does.
    async fn clean_stop(&mut self) -> anyhow::Result<()> {
        let Some((leader, epoch)) = self.leader("a leader to stop", PATIENCE).await? else {
            return Ok(());
        };
        let at = self.scene.now().await?;
        let node = self
            .nodes
            .iter_mut()
            .find(|node| node.name == leader)
            .context("the leader is one of ours")?;
        node.signal(Signal::SIGTERM)?;
        self.note(at, DeedKind::Stop, leader, epoch, 0)?;
        self.scene
            .progress
            .deed(&format!("SIGTERM {leader}: a clean stop"));
        let began = self.scene.clock.boot();
        let node = self
            .nodes
            .iter_mut()
            .find(|node| node.name == leader)
            .context("the leader is one of ours")?;
        let status = self.scene.clock.timeout(PATIENCE, node.ended()).await;
        match status {
            Ok(status) => {
                let took = span(self.scene.clock.boot().since(began));
                self.scene
                    .progress
                    .event(&format!("{leader} ended after {took}: {}", status?));
            }
            Err(_) => self.scene.progress.bad(&format!("{leader} did not end")),
        }
        self.nodes.retain(|node| node.name != leader);
        self.leader("a successor of the stopped leader", self.ttl)
            .await?;
        Ok(())
    }

    /// A newer build of the plugin replaces the older one.
    async fn swap(&mut self) -> anyhow::Result<()> {
        let Some(name) = self.nodes.first().map(|node| node.name) else {
            return Ok(());
        };
        let before = self
            .scene
            .plugin(name, "kv-ttl")
            .await?
            .map(|(_, digest)| digest);
        self.put(&format!("{PLUGIN}.wasm"), builtins::KV_TTL_NEXT)?;
        self.scene
            .progress
            .deed(&format!("a newer build of {PLUGIN}.wasm dropped in"));
        self.await_plugin(before.as_deref()).await
    }

    /// Let the writer rest and the last node finish.
    async fn settle(&mut self) -> anyhow::Result<()> {
        self.order(Order::Rest).await?;
        self.scene.linger(LAPSE).await?;
        self.scene
            .wait("everything is drained", PATIENCE, async |scene| {
                let now = scene.now().await?;
                let state = scene.state();
                let drained = state.counts().marks <= 1 && state.lapsed(now).next().is_none();
                Ok((drained && state.kv_scan(SESSIONS, None).next().is_none()).then_some(()))
            })
            .await?;
        self.scene
            .progress
            .event("nothing is left to do but the conflict, which an operator has to settle");
        Ok(())
    }

    async fn end(self, observer: Observer) -> anyhow::Result<()> {
        let Self {
            mut scene,
            writer,
            nodes,
            ..
        } = self;
        writer.end().await?;
        for mut node in nodes {
            node.signal(Signal::SIGTERM)?;
            if scene.clock.timeout(PATIENCE, node.ended()).await.is_err() {
                scene.progress.bad(&format!("{} did not end", node.name));
            }
        }
        observer.end().await?;
        scene.progress.event("all processes have ended");
        scene.close().await;
        Ok(())
    }
}
