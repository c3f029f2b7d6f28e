#!/usr/bin/env bash
# Writes the descriptions of the contract for JavaScript and Python, with the
# generators that their compilers bring. `.ci/setup test` installs those.
#
#   sdk/generate.sh            into sdk/
#   sdk/generate.sh FOLDER     into another folder, to compare
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd -P)
out=${1:-$root/sdk}
toolchains=$root/target/toolchains

rm -rf "$out/js/types" "$out/python/bindings"
mkdir -p "$out/js" "$out/python/bindings"

# From a copy: the generator does not follow a link to the folder.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp "$root"/wit/*.wit "$copy/"
"$toolchains/js/node_modules/.bin/jco" guest-types "$copy" \
    --world-name plugin --out-dir "$out/js/types" --quiet

"$toolchains/python/bin/componentize-py" --quiet --wit-path "$copy" --world plugin \
    bindings "$copy/bindings"
cp -r "$copy/bindings/wit_world" "$copy/bindings/componentize_py_types.py" "$out/python/bindings/"
