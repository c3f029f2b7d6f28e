//! Three nodes on one database, and an operator who deploys to them.

use aedile_runtime::{PluginStatus, WantedState};
use aedile_tests_contract::databases::Kind;

use crate::binary::Node;
use crate::operator::{Module, Operator};
use crate::site::{BOUND, Site, leader};

/// Their names.
pub const NAMES: [&str; 3] = ["a", "b", "c"];

/// Three nodes and an operator.
#[derive(Debug)]
pub struct Three {
    /// The nodes, in the order of their names. They go first: a place is not
    /// taken from under a node.
    pub nodes: Vec<Node>,
    /// The operator.
    pub operator: Operator,
    /// Where they run.
    pub site: Site,
}

impl Three {
    /// Start them on a small catalog, and wait until one leads.
    pub async fn start(kind: Kind) -> Self {
        Self::with(kind, 4, 0).await
    }

    /// Start them on a catalog with so many live and so many destroyed objects.
    pub async fn with(kind: Kind, live: usize, marked: usize) -> Self {
        let site = Site::new(kind, live, marked).await;
        let nodes = NAMES.map(|name| node(&site, name)).into();
        let operator = Operator::new(&site).await;
        let three = Self {
            site,
            nodes,
            operator,
        };
        three.leads().await;
        three
    }

    /// Which node leads.
    pub async fn leads(&self) -> usize {
        let mut raw = self.site.raw().await;
        let nodes: Vec<&Node> = self.nodes.iter().collect();
        leader(&mut raw, &nodes, BOUND).await.0
    }

    /// Wait until every node runs this module.
    pub async fn run(&self, module: &Module) -> Vec<PluginStatus> {
        let digest = module.digest();
        self.operator
            .all(&NAMES, &module.name, "it runs everywhere", |plugin| {
                plugin.digest == digest
                    && plugin
                        .wanted
                        .as_ref()
                        .is_some_and(|wanted| wanted.state == WantedState::Running)
            })
            .await
    }

    /// Stop them; none may have ended by itself.
    pub async fn end(mut self) {
        self.operator.close().await;
        for node in &mut self.nodes {
            assert!(node.ended().is_none(), "{} has ended", node.name);
            assert_eq!(node.stop(), Some(0), "{}", node.name);
        }
    }
}

/// Start a node that tells of itself often.
pub fn node(site: &Site, name: &str) -> Node {
    site.node(name, "2s", &["--heartbeat", "1s"])
}

/// How far a node is with what is wanted.
pub fn wanted(plugin: &PluginStatus) -> &WantedState {
    &plugin.wanted.as_ref().expect("something is wanted").state
}

/// A key of a plugin's own.
pub fn key(name: &str, key: &str) -> String {
    format!("aedile/kv/{name}/{key}")
}
