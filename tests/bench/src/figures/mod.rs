//! The benchmarks, one file each.

mod append;
mod catalog;
mod cleaner;
mod deploy;
pub(crate) mod engine;
mod replay;
mod takeover;
mod undeletable;

use std::future::Future;
use std::pin::Pin;

use crate::{Context, Figure};

type Run =
    for<'a> fn(&'a Context) -> Pin<Box<dyn Future<Output = anyhow::Result<Vec<Figure>>> + 'a>>;

/// A benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Bench {
    /// The word that runs it alone.
    pub name: &'static str,
    /// What is compared, for whoever reads the figures.
    pub about: &'static str,
    /// Run it.
    pub run: Run,
}

/// All of them.
pub const ALL: &[Bench] = &[
    Bench {
        name: "cleaner",
        about: cleaner::ABOUT,
        run: |context| Box::pin(cleaner::run(context)),
    },
    Bench {
        name: "undeletable",
        about: undeletable::ABOUT,
        run: |context| Box::pin(undeletable::run(context)),
    },
    Bench {
        name: "append",
        about: append::ABOUT,
        run: |context| Box::pin(append::run(context)),
    },
    Bench {
        name: "replay",
        about: replay::ABOUT,
        run: |context| Box::pin(replay::run(context)),
    },
    Bench {
        name: "catalog",
        about: catalog::ABOUT,
        run: |context| Box::pin(catalog::run(context)),
    },
    Bench {
        name: "engine",
        about: engine::ABOUT,
        run: |context| Box::pin(engine::run(context)),
    },
    Bench {
        name: "takeover",
        about: takeover::ABOUT,
        run: |context| Box::pin(takeover::run(context)),
    },
    Bench {
        name: "deploy",
        about: deploy::ABOUT,
        run: |context| Box::pin(deploy::run(context)),
    },
];
