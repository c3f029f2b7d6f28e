//! Each benchmark runs, as small as it can be, and yields its figures.

use std::path::PathBuf;

use aedile_tests_bench::{ALL, Context, Page, Scale};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_benchmark_yields_figures() {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_aedile-tests-bench"));
    let context = Context::new(Scale::Toy, binary);
    let mut page = Page::default();
    for bench in ALL {
        let figures = (bench.run)(&context).await;
        let figures = figures.unwrap_or_else(|error| panic!("{}: {error:#}", bench.name));
        assert!(!figures.is_empty(), "{} yields no figure", bench.name);
        for figure in &figures {
            let median = figure.product.median();
            assert!(
                median.is_finite() && median >= 0.0,
                "{}: {}",
                bench.name,
                figure.what
            );
        }
        page.set(bench.name, bench.about, "now", &figures);
    }
    let names: Vec<_> = ALL.iter().map(|bench| bench.name).collect();
    let page = page.text(&[], &names);
    for name in names {
        assert!(page.contains(&format!("## {name}")), "{page}");
    }
}
