#!/usr/bin/env bash
# Checks licences, sources and banned crates of the lock file with cargo-deny, which is built once into the cache.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.20.2
cache=${SLIPWAY_CACHE:-$HOME/.cache/slipway}
tool=$cache/cargo-deny-$version

mkdir -p "$cache"
exec 9>"$cache/cargo-deny.lock"
flock 9
if [ ! -x "$tool/bin/cargo-deny" ]; then
  echo "Building cargo-deny $version, once (some minutes)"
  env -u RUSTC_WORKSPACE_WRAPPER CARGO_TARGET_DIR=$tool.target cargo install --quiet --locked --debug --config 'profile.dev.debug=false' --root "$tool.new" "cargo-deny@$version"
  rm -rf "$tool.target" "$tool"
  mv "$tool.new" "$tool"
fi
flock -u 9
exec "$tool/bin/cargo-deny" --log-level error check licenses bans sources
