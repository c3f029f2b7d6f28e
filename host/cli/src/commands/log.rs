//! `aedile log clear-divergence`.

use aedile_log::{DivergenceRecord, clear_divergence};

use crate::commands;
use crate::config::Config;
use crate::exit::Exit;
use crate::output::{self, figures};
use crate::settings;

/// Forget that a node has diverged.
pub(crate) async fn clear(config: &Config) -> anyhow::Result<Exit> {
    let json = config.switch(settings::JSON)?;
    let (url, node, clock) = (config.meta_url()?, config.node()?, commands::clock());
    let cleared = clear_divergence(&url, &node, &clock).await?;
    let reader = commands::reader(config, &clock).await?;
    let now = reader.database_now().await?.0;
    let left = reader.divergences().await?;
    reader.close().await;
    if json {
        let left: Vec<&str> = left.iter().map(|other| other.node.as_str()).collect();
        output::json(&serde_json::json!({
            "node": node,
            "cleared": cleared.as_ref().map(|record| serde_json::json!({
                "index": record.index,
                "section": record.section,
                "reason": record.reason,
                "found": record.found.0,
            })),
            "left": left,
        }))?;
    } else {
        for line in lines(&node, cleared.as_ref(), &left, now) {
            output::line(&line);
        }
    }
    // A name that nobody diverged under, while others did, is a misspelt one.
    Ok(if cleared.is_none() && !left.is_empty() {
        Exit::Usage
    } else {
        Exit::Ok
    })
}

fn lines(
    node: &str,
    cleared: Option<&DivergenceRecord>,
    left: &[DivergenceRecord],
    now: i64,
) -> Vec<String> {
    let mut lines = match cleared {
        Some(record) => vec![
            format!(
                "cleared for {node}: the snapshot at index {} and its section \"{}\", found {}",
                record.index,
                record.section,
                figures::ago(record.found.0, now)
            ),
            "a node that is running reads the log anew within seconds and contends again; \
             nothing has to be restarted"
                .to_owned(),
        ],
        None => vec![format!("{node} has not diverged: nothing was cleared")],
    };
    lines.extend(left.iter().map(|other| {
        format!(
            "{} has diverged, found {}: --node {0} clears it",
            other.node,
            figures::ago(other.found.0, now)
        )
    }));
    lines
}

#[cfg(test)]
mod tests {
    use aedile_clock::UnixMillis;

    use super::*;

    fn record(node: &str) -> DivergenceRecord {
        DivergenceRecord {
            node: node.to_owned(),
            index: 1024,
            section: "streams".to_owned(),
            reason: "the snapshot differs".to_owned(),
            found: UnixMillis(9_000),
        }
    }

    #[test]
    fn what_was_cleared_is_told_and_who_else_has_diverged() {
        let told = lines("a", Some(&record("a")), &[record("b")], 10_000).join("\n");
        for part in [
            "cleared for a",
            "index 1024",
            "\"streams\"",
            "1.0 s ago",
            "nothing has to be restarted",
            "b has diverged",
            "--node b",
        ] {
            assert!(told.contains(part), "{part} is not in: {told}");
        }
        let told = lines("c", None, &[], 10_000).join("\n");
        assert_eq!(told, "c has not diverged: nothing was cleared");
    }
}
