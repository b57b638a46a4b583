#!/usr/bin/env bash
# Everything that has to hold, in the order in which it fails fastest. Each part says how long it took.
set -euo pipefail
cd "$(dirname "$0")/.."
part() {
  local name=$1 start=$SECONDS
  shift
  echo "── $name"
  "$@"
  echo "── $name: ok, $((SECONDS - start)) s"
}

web_checks() {
  make --no-print-directory web/node_modules/.installed
  (cd web && npm run --silent format:check && npm run --silent lint && npm run --silent typecheck && npm test --silent)
}

conformance() {
  local suites=../shared/suites slipway=$CARGO_TARGET_DIR/debug/slipway
  [ -d "$suites" ] || { echo "no $suites: nothing to compare with"; return; }
  "$slipway" conformance pipelines "$suites/pipelines"
  "$slipway" conformance gitops "$suites/gitops"
}

end_to_end() {
  (cd e2e && { [ node_modules/.package-lock.json -nt package-lock.json ] || npm --no-fund --no-audit --loglevel=error ci; })
  SLIPWAY_BIN=$CARGO_TARGET_DIR/debug/slipway node --test --test-concurrency=1 e2e/tests/*.test.mjs
}

part "set-up" scripts/setup.sh test
part "formatting" cargo fmt --check
part "rooms" cargo xtask tidy
part "web checks" web_checks
part "web build" make --no-print-directory web/dist/index.html
part "clippy" cargo clippy --quiet --locked --workspace --all-targets -- --deny warnings
part "build" cargo build --quiet --locked --package slipway
part "unit and integration" cargo test --quiet --locked --workspace
part "conformance" conformance
part "end to end" end_to_end
echo "All parts hold, $SECONDS s."
