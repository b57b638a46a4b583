#!/usr/bin/env bash
# The program that runs the steps of Workflows in their pods, as one file without libraries; built if need be. Prints its path.
set -euo pipefail
cd "$(dirname "$0")/.."
into=${CARGO_TARGET_DIR:-${SLIPWAY_CACHE:-$HOME/.cache/slipway}/target}/executor
mkdir -p "$into"
exec 9>"$into/lock"
flock 9
target=$(rustc -vV | sed -n 's/^host: //p')
# With a target the flags are not those of build scripts, and a folder of its own keeps the other programs from being compiled again.
RUSTFLAGS='-C target-feature=+crt-static' env -u RUSTC_WORKSPACE_WRAPPER \
  cargo build --quiet --locked --release --package slipway-executor --target "$target" --target-dir "$into" 9>&- >&2
echo "$into/$target/release/slipway-executor"
