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

# Every page and dialog in Chromium, against a stand-in that can show each state; e2e/ walks the real platform.
web_pages() {
  (cd web && npm run --silent test:browser)
}

conformance() {
  local suites=${SLIPWAY_SUITES:-../shared/suites} slipway=$CARGO_TARGET_DIR/debug/slipway
  if [ ! -d "$suites" ]; then
    [ -z "${CI:-}" ] || { echo "CI needs $suites (or SLIPWAY_SUITES): the recorded suites are what we compare with" >&2; return 1; }
    echo "WARNING: no $suites on this machine: compared with our own fixtures only" >&2
    "$slipway" conformance pipelines crates/pipeline/fixtures/conformance
    return
  fi
  "$slipway" conformance pipelines "$suites/pipelines"
  "$slipway" conformance gitops "$suites/gitops"
}

end_to_end() {
  (cd e2e && { [ node_modules/.package-lock.json -nt package-lock.json ] || npm --no-fund --no-audit --loglevel=error ci; })
  export SLIPWAY_BIN=$CARGO_TARGET_DIR/debug/slipway
  local file unsteady=""
  for file in e2e/tests/*.test.mjs; do
    node --test "$file" && continue
    # As in run-tests.mjs: one may be unsteady, and is named; that is a defect.
    [ -z "$unsteady" ] && unsteady=$file && node --test "$file" || return 1
    echo "UNSTEADY $file: it failed and then held; above is what it printed. This is a defect."
  done
}

# The real Kubernetes and the real Gitea take minutes to compile the first time. They do so beside the other parts, which go first.
build_kubernetes() {
  local log=$SLIPWAY_CACHE/kubernetes-build.log
  mkdir -p "$SLIPWAY_CACHE"
  nice -n 5 bash -c 'scripts/kube.sh build && scripts/kube.sh tools helm kustomize jsonnet registry && scripts/gitea.sh build' </dev/null >"$log" 2>&1 &
  building=$!
}

real_kubernetes() {
  wait "$building" || { cat "$SLIPWAY_CACHE/kubernetes-build.log" >&2; return 1; }
  kubeconfig=$(scripts/kube.sh up)
  # A machine of one's own keeps it for the next time; a CI machine is left as it was.
  [ -z "${CI:-}" ] || trap 'scripts/kube.sh down; scripts/docker.sh down' EXIT
}

# The whole control plane once more, on the database of the scaled set.
on_postgres() {
  SLIPWAY_TEST_DATABASE=postgres node scripts/run-tests.mjs slipway-server
}

# The cases that the embedded cluster has just passed, with the real one as the judge.
behaviour() {
  SLIPWAY_TEST_KUBECONFIG=$kubeconfig SLIPWAY_TEST_IMAGE=localhost/slipway-test:1 \
    node scripts/run-tests.mjs slipway-devcluster --skip kill:: --test-threads 8
}

part "set-up" scripts/setup.sh test
build_kubernetes
part "formatting" cargo fmt --check
part "rooms" cargo xtask tidy
part "dependencies" scripts/deny.sh
part "web checks" web_checks
part "web build" make --no-print-directory web/dist/index.html
part "web pages" web_pages
part "clippy" cargo clippy --quiet --locked --workspace --all-targets -- --deny warnings
part "build" cargo build --quiet --locked --package slipway
part "real Kubernetes" real_kubernetes
part "unit and integration" node scripts/run-tests.mjs
part "tests that documents name" cargo xtask tidy --ran "$CARGO_TARGET_DIR/tests-ran.txt"
part "control plane on PostgreSQL" on_postgres
part "behaviour of the real Kubernetes" behaviour
part "conformance" conformance
part "contract" scripts/schemathesis.sh "$CARGO_TARGET_DIR/debug/slipway"
part "end to end" end_to_end
echo "All parts hold, $SECONDS s."
