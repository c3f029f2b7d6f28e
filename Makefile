# The few compound commands. Everything else is plain cargo.

.PHONY: demo test conformance plugins generated bench bench-quick setup check

# Three nodes, a killed leader, a hot swap, and a verdict. About a minute
# after the first build.
demo:
	@.ci/setup build
	cargo run --quiet -p aedile -- demo

# Everything that the project proves about itself, on SQLite, PostgreSQL, a
# local directory and an S3 server on loopback. Most tests wait for processes
# and clocks more than they compute, so two run on each core.
test: export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
test:
	@.ci/setup test
	cargo test --workspace --no-fail-fast
	cargo test --manifest-path plugins/Cargo.toml --features kv-ttl/next

# The captures in AEDILE_FIXTURES (default: tests/fixtures) against our codec,
# apply and snapshot.
conformance:
	cargo test -p aedile-tests-conformance -- --nocapture

# Rebuild the Wasm modules and their lock.
plugins:
	plugins/build.sh

# The page of the contract and the bindings of the guest layers, from wit/.
generated:
	cargo run --quiet -p aedile-tests-workspace --bin generate
	sdk/generate.sh

# Warnings are errors.
check:
	cargo fmt --all --check
	cargo fmt --all --check --manifest-path plugins/Cargo.toml
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy --manifest-path plugins/Cargo.toml --all-targets --features kv-ttl/next -- -D warnings

# Every figure of docs/benchmarks.md, each beside a baseline in the same run.
# Wants an idle machine; about half an hour after the build.
bench:
	@.ci/setup test
	cargo run --release -p aedile-tests-bench -- --write docs/benchmarks.md

# The same, a tenth as large, and written nowhere.
bench-quick:
	@.ci/setup test
	cargo run --release -p aedile-tests-bench -- --scale quick
