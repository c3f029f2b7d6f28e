//! Puts every capture through codec, `apply` and snapshot.

use aedile_tests_conformance::captures::{captures, directory};
use aedile_tests_conformance::check_all;
use aedile_tests_conformance::report::Report;

/// The tree's own captures hold every form. A directory that the environment
/// names may hold some of them only, which is told, but not none.
#[test]
fn all_captures_conform() {
    let (directory, own) = directory();
    let captures = captures(&directory);
    let mut report = Report::default();
    check_all(&captures, &mut report);

    println!("\n{} captures in {}", captures.len(), directory.display());
    println!("{report}");
    for failure in &report.failures {
        println!("{failure}");
    }
    assert!(
        report.failures.is_empty(),
        "{} failures, listed above",
        report.failures.len()
    );
    assert!(
        report.checked() > 0,
        "nothing to check in {}",
        directory.display()
    );
    if own {
        assert!(
            report.absent().is_empty(),
            "the tree has no {:?}",
            report.absent()
        );
    }
}
