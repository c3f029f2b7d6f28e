//! `aedile state export`: the state in a file, for trials.

use std::io::Write as _;
use std::path::Path;

use serde_json::json;

use super::capture::Capture;
use crate::commands;
use crate::config::{Config, ConfigError};
use crate::exit::Exit;
use crate::output::{self, figures};
use crate::settings;

/// Read the state and write the file, which must not be there yet.
pub(crate) async fn export(config: &Config, file: &Path) -> anyhow::Result<Exit> {
    let json = config.switch(settings::JSON)?;
    let reader = commands::reader(config, &commands::clock()).await?;
    let now = reader.database_now().await?.0;
    let view = reader.view().await?;
    reader.close().await;
    let capture = Capture { view, now };
    let bytes = capture.encode()?;
    let problem = |reason: String| ConfigError::Argument {
        what: file.display().to_string(),
        reason,
    };
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    // A state is the cluster's own business: names of streams, keys and values.
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
        .open(file)
        .and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()))
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                problem("the file is there already, and nothing is overwritten".to_owned())
            }
            _ => problem(format!("cannot be written: {error}")),
        })?;
    let index = capture.view.index;
    if json {
        output::json(&json!({
            "file": file,
            "index": index,
            "now": now,
            "bytes": bytes.len(),
        }))?;
    } else {
        output::line(&format!(
            "{}: the state at log index {index}, {}",
            file.display(),
            figures::bytes(bytes.len() as u64)
        ));
    }
    Ok(Exit::Ok)
}
