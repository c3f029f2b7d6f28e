#!/usr/bin/env bash
# Builds the guests into host/cli/modules and writes modules.lock beside them.
#
#   plugins/build.sh            build, write the modules and the lock
#   plugins/build.sh --check    build aside and compare with what is there
#
# The same sources and the same toolchain give the same bytes in any folder.
# CARGO_TARGET_DIR says where cargo builds; plugins/target if it is not set.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd -P)
cd "$root"

modules=host/cli/modules
lock=$modules/modules.lock
target=wasm32-unknown-unknown
target_dir=${CARGO_TARGET_DIR:-$root/plugins/target}
check=
case "${1:-}" in
    "") ;;
    --check) check=yes ;;
    *) echo "usage: plugins/build.sh [--check]" >&2; exit 2 ;;
esac

sha256=(sha256sum)
command -v sha256sum >/dev/null || sha256=(shasum -a 256)

# One hash over all that goes into a module. tests/workspace computes the same.
inputs() {
    find wit plugins -name target -prune -o -type f \( \
        -name '*.rs' -o -name '*.toml' -o -name '*.json' -o -name '*.wit' \
        -o -name '*.sh' -o -path plugins/Cargo.lock \) -print |
        LC_ALL=C sort | tr '\n' '\0' | xargs -0 "${sha256[@]}" | "${sha256[@]}" | cut -d' ' -f1
}

# The toolchain: one that has the target's library, else Debian's packages,
# which build it from its source.
has_target() { [ -d "$("$1" --print sysroot)/lib/rustlib/$target/lib" ]; }
sources=/usr/lib/rustlib/src/rust
build_std=()
if command -v rustc >/dev/null && has_target rustc; then
    name=target
    rustc=rustc cargo=cargo
    # The compiler's own, by its default.
    linker=
    linker_version="of rustc"
elif [ -x /usr/bin/rustc ] && [ -x /usr/bin/cargo ] && [ -f $sources/library/Cargo.lock ]; then
    name=debian
    rustc=/usr/bin/rustc cargo=/usr/bin/cargo
    build_std=(-Zbuild-std=std,panic_abort)
    linker=
    for candidate in "$(rustc --print sysroot 2>/dev/null)"/lib/rustlib/*/bin/rust-lld /usr/bin/wasm-ld /usr/bin/wasm-ld-*; do
        [ -x "$candidate" ] && { linker=$candidate; break; }
    done
    [ -n "$linker" ] || { echo "build: no linker for Wasm: apt-get install lld" >&2; exit 1; }
    case "$linker" in
        */rust-lld) linker_version=$("$linker" -flavor wasm --version | cut -d' ' -f1,2) ;;
        *) linker_version=$("$linker" --version) ;;
    esac
else
    cat >&2 <<'EOF'
build: no Rust toolchain for wasm32-unknown-unknown. Install the target:
    rustup target add wasm32-unknown-unknown
or, on Debian, a compiler that comes with its library's source:
    apt-get install --no-install-recommends rustc-web cargo-web rust-web-src
EOF
    exit 1
fi
rustc_version=$("$rustc" --version)

# No path of this machine may get into a module.
remap() { printf -- '--remap-path-prefix=%s=%s' "$1" "$2"; }
flags=(
    "$(remap "$root" /aedile)"
    "$(remap "${CARGO_HOME:-$HOME/.cargo}/registry/src" /crates)"
    "$(remap $sources /rust)"
    "$(remap "$(readlink -f $sources 2>/dev/null || echo $sources)" /rust)"
)

# What a user's own environment would add stays out.
unset RUSTFLAGS CARGO_BUILD_RUSTFLAGS CARGO_BUILD_TARGET RUSTC_WRAPPER CARGO_BUILD_RUSTC_WRAPPER
build() { # build PACKAGE MODULE [FEATURE]
    (
        cd plugins # cargo reads its configuration from here upwards
        [ -z "$linker" ] || export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$linker
        [ ${#build_std[@]} -eq 0 ] || export RUSTC_BOOTSTRAP=1
        export RUSTC=$rustc CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$target_dir
        CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f'; printf '%s' "${flags[*]}")
        export CARGO_ENCODED_RUSTFLAGS
        "$cargo" build --quiet --locked --release --target $target ${build_std[@]+"${build_std[@]}"} \
            --package "$1" ${3:+--features "$3"}
    )
    cp "$target_dir/$target/release/${1#aedile-}.wasm" "$out/$2" 2>/dev/null ||
        cp "$target_dir/$target/release/$(printf %s "${1#aedile-}" | tr - _).wasm" "$out/$2"
}

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
build aedile-expiry expiry.wasm
build aedile-cleaner cleaner.wasm
build aedile-orphans orphans.wasm
build aedile-trimmed trimmed.wasm
build aedile-scrub scrub.wasm
build aedile-retention retention.wasm
build kv-ttl kv_ttl_next.wasm next
build kv-ttl kv_ttl.wasm

write_lock() {
    cat <<EOF
# Written by plugins/build.sh; \`make plugins\` renews it.

# All that the modules are made of: wit/ and plugins/.
inputs = "$(inputs)"

[toolchain]
name = "$name"
rustc = "$rustc_version"
linker = "$linker_version"
flags = [
    "--locked", "--release", "--target=$target",${build_std:+ \"${build_std[*]}\",}
    "--remap-path-prefix=<this folder>=/aedile",
    "--remap-path-prefix=<cargo's registry>=/crates",
    "--remap-path-prefix=<the library's source>=/rust",
]

[modules]
$(cd "$out" && "${sha256[@]}" ./*.wasm | sed -E 's|^([0-9a-f]+) .*/(.*)$|"\2" = "\1"|')
EOF
}
write_lock >"$out/modules.lock"

if [ -z "$check" ]; then
    mkdir -p $modules
    cp "$out"/*.wasm "$out/modules.lock" $modules/
    ls -l $modules/*.wasm | awk '{ printf "%8d  %s\n", $5, $NF }'
    exit 0
fi

toolchain() { sed -n '/^\[toolchain\]/,/^\[modules\]/p' "$1"; }
if [ "$(toolchain "$out/modules.lock")" != "$(toolchain $lock)" ]; then
    echo "check: built, not compared: the toolchain differs from the lock's"
    diff <(toolchain $lock) <(toolchain "$out/modules.lock") | grep '^[<>]' || true
    exit 0
fi
if diff -r "$out" $modules >&2; then
    echo "check: the rebuilt modules are the committed ones, byte for byte"
else
    echo "check: the modules are not what their sources give; run make plugins" >&2
    exit 1
fi
