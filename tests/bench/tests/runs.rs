//! Each benchmark runs, as small as it can be, and yields its figures.

use std::path::PathBuf;

use aedile_tests_bench::{ALL, Context, Scale, document};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_benchmark_yields_figures() {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_aedile-tests-bench"));
    let context = Context::new(Scale::Toy, binary);
    let mut sections = Vec::new();
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
        sections.push((bench.name, bench.about, figures));
    }
    let page = document(&[], &sections);
    for bench in ALL {
        assert!(page.contains(&format!("## {}", bench.name)), "{page}");
    }
}
