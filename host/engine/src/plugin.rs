//! A plugin that is ready to run.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::bindings::generated::PluginPre;
use crate::engine::Shared;
use crate::grant::Grant;
use crate::host::Host;
use crate::limits::Limits;
use crate::load::Inspection;
use crate::manifest::Manifest;
use crate::run::{self, Context, Returned};
use crate::text::line;
use crate::tick::{Control, Tick, TickEnd, TickInput};
use crate::wit::{Failure, Report};

/// A plugin that is compiled and linked. A clone is another handle.
#[derive(Clone)]
pub struct Plugin {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    inspection: Inspection,
    pre: PluginPre<Context>,
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin")
            .field("name", &self.manifest().name)
            .field("version", &self.manifest().version)
            .field("digest", &self.digest())
            .finish_non_exhaustive()
    }
}

impl Plugin {
    pub(crate) fn new(
        shared: Arc<Shared>,
        inspection: Inspection,
        pre: PluginPre<Context>,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                shared,
                inspection,
                pre,
            }),
        }
    }

    /// What it says about itself.
    pub fn manifest(&self) -> &Manifest {
        &self.inner.inspection.manifest
    }

    /// SHA-256 of the bytes it was loaded from, in lower-case hex.
    pub fn digest(&self) -> &str {
        &self.inner.inspection.digest
    }

    /// What it imports: all that it can do.
    pub fn imports(&self) -> &[Grant] {
        &self.inner.inspection.imports
    }

    /// What is known of its module.
    pub fn inspection(&self) -> &Inspection {
        &self.inner.inspection
    }

    /// Have it check a configuration. It may use `job` and `logging` only.
    ///
    /// # Errors
    /// How the call ended if it gave no answer: a trap or a limit.
    pub async fn validate_config(
        &self,
        json: &str,
        limits: &Limits,
    ) -> Result<Result<(), String>, TickEnd> {
        let input = TickInput {
            now: self.inner.shared.clock.unix().0,
            plugin: self.manifest().name.clone(),
            node: String::new(),
            epoch: 0,
            config: json.to_owned(),
            seed: 0,
        };
        let control = Control {
            authority: Arc::new(|| true),
            stop: Default::default(),
        };
        let call = run::Call::ValidateConfig(json.to_owned());
        match self.run(call, input, None, limits, control).await.end? {
            Returned::Config(Ok(())) => Ok(Ok(())),
            Returned::Config(Err(text)) => Ok(Err(line(&text))),
            Returned::Tick(_) => Err(TickEnd::HostError(
                "the engine mixed up two exports".to_owned(),
            )),
        }
    }

    /// Run one tick in a fresh instance. It returns when nothing of the tick
    /// runs any more, at the latest at [`Limits::wall`] + [`Limits::grace`] as
    /// long as the host does not block its thread.
    ///
    /// Await it to its end. If it is dropped, the instance is dropped with the host
    /// call that it waits for: what that was about may have happened or not.
    pub async fn tick(
        &self,
        input: TickInput,
        host: Box<dyn Host>,
        limits: &Limits,
        control: Control,
    ) -> Tick {
        let ran = self
            .run(run::Call::Tick, input, Some(host), limits, control)
            .await;
        let end = match ran.end {
            Ok(Returned::Tick(Ok(report))) => reported(report),
            Ok(Returned::Tick(Err(failure))) => failed(failure),
            Ok(Returned::Config(_)) => {
                TickEnd::HostError("the engine mixed up two exports".to_owned())
            }
            Err(end) => end,
        };
        Tick {
            end,
            usage: ran.usage,
            metrics: ran.metrics,
            host: ran.host,
        }
    }

    async fn run(
        &self,
        call: run::Call,
        input: TickInput,
        host: Option<Box<dyn Host>>,
        limits: &Limits,
        control: Control,
    ) -> run::Ran {
        let context = Context::new(
            self.inner.shared.clock.clone(),
            input,
            host,
            limits.clone(),
            control,
        );
        run::run(&self.inner.shared, &self.inner.pre, call, context).await
    }
}

fn reported(report: Report) -> TickEnd {
    let report = Report {
        summary: line(&report.summary),
        ..report
    };
    if report.more {
        TickEnd::More(report)
    } else {
        TickEnd::Done(report)
    }
}

fn failed(failure: Failure) -> TickEnd {
    match failure {
        Failure::Retry(retry) => TickEnd::Retry {
            after: Duration::from_millis(retry.after_ms),
            reason: line(&retry.reason),
        },
        Failure::Reject(reason) => TickEnd::Reject {
            reason: line(&reason),
        },
    }
}
