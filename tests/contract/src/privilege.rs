//! Tests of permissions that also hold for root.

/// Run a test whose runtime's threads, blocking ones included, have no
/// privilege: root, who obeys no permission, gives it up on them. The future
/// itself runs on the caller's thread; spawn what is to be bound.
///
/// # Panics
/// No runtime could be had.
#[allow(clippy::expect_used, reason = "a test that cannot go on ends there")]
pub fn without_privilege(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .on_thread_start(|| {
            if nix::unistd::geteuid().is_root() {
                nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65_534));
            }
        })
        .build()
        .expect("a runtime");
    runtime.block_on(test);
}
