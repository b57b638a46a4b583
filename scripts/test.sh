#!/usr/bin/env bash
# Everything that has to hold, in the order in which it fails fastest. Each part says how long it took.
set -euo pipefail
cd "$(dirname "$0")/.."
over=""

# part NAME BUDGET COMMAND…: the budget is in seconds, for a warm run on two quiet cores (docs/results/ci.md).
part() {
  local name=$1 budget=$2 start=$SECONDS before idle_before all_before
  count_work
  before=$work idle_before=$idle all_before=$all
  shift 2
  echo "── $name"
  "$@"
  count_work
  judge "$name" "$budget" $((SECONDS - start)) "$((work - before)) s of processor, $((100 * (idle - idle_before) / (all - all_before + 1)))% of the machine idle"
}

# Processor seconds of all children that have ended: a part that takes long and works little waits for something.
# Not in a subshell, which would have no children of its own.
times_file=$(mktemp)
count_work() {
  times >"$times_file"
  work=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, part, "m"); sum += part[1] * 60 + part[2] } } END { printf "%d", sum }' "$times_file")
  # Of all programs of the machine: what is idle waits for something, and more at once would be quicker.
  read -r idle all < <(awk '$1 == "cpu" { for (i = 2; i <= 9; i++) sum += $i; print $5 + $6, sum }' /proc/stat)
}

judge() {
  local name=$1 budget=$2 took=$3 work=${4:+, $4} note=""
  [ "$took" -le "$budget" ] || { note=", OVER BUDGET"; over="$over $name ($took of $budget s);"; }
  echo "── $name: ok, $took s of $budget$work$note"
}

# What mostly waits, beside the parts that follow; `finish` prints what it said and fails if it did.
begin() {
  local name=$1 log
  log=$(mktemp)
  shift
  set -m
  ("$@" && echo "$SECONDS" >"$log.end") >"$log" 2>&1 </dev/null &
  set +m
  beside[$name]="$! $log $SECONDS"
}

finish() {
  local name=$1 budget=$2 pid log start failed=0
  read -r pid log start <<<"${beside[$name]}"
  echo "── $name (beside the parts before it)"
  wait "$pid" || failed=1
  unset "beside[$name]"
  cat "$log"
  [ $failed = 0 ] || { rm -f "$log" "$log.end"; return 1; }
  judge "$name" "$budget" $(($(cat "$log.end") - start))
  rm -f "$log" "$log.end"
}
declare -A beside

# Whatever ends this run ends what still runs beside it; a CI machine is left as it was.
leave() {
  local one pid
  rm -f "$times_file"
  for one in "${beside[@]}"; do
    read -r pid _ <<<"$one"
    # A group of its own: what a part has started ends with it.
    kill -- "-$pid" 2>/dev/null || true
  done
  [ -z "${building:-}" ] || kill -- "-$building" 2>/dev/null || true
  [ -z "${CI:-}" ] || [ -z "${kubeconfig:-}" ] || { scripts/kube.sh down; scripts/docker.sh down; }
}
trap leave EXIT

web_checks() {
  make --no-print-directory web/node_modules/.installed
  (cd web && npm run --silent format:check && npm run --silent lint && npm run --silent typecheck && npm test --silent)
}

# Every page and dialog in Chromium, against a stand-in that can show each state; e2e/ walks the real platform.
# In a network of its own: a browser ends what it is loading whenever an address of the machine comes or goes, and containers of other tests bring and take them.
web_pages() {
  (cd web && unshare --net $([ "$(id -u)" = 0 ] || echo --map-root-user) sh -c 'ip link set lo up && exec npm run --silent test:browser')
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
  "$slipway" conformance rollouts "$suites/rollouts"
  "$slipway" conformance workflows "$suites/workflows"
}

end_to_end() {
  (cd e2e && { [ node_modules/.package-lock.json -nt package-lock.json ] || npm --no-fund --no-audit --loglevel=error ci; })
  SLIPWAY_BIN=$CARGO_TARGET_DIR/debug/slipway node scripts/run-e2e.mjs e2e/tests/*.test.mjs
}

# The real Kubernetes and the real Gitea take minutes to compile the first time. They do so beside the other parts, which go first.
build_kubernetes() {
  local log=$SLIPWAY_CACHE/kubernetes-build.log
  mkdir -p "$SLIPWAY_CACHE"
  set -m
  nice -n 5 bash -c 'scripts/kube.sh build && scripts/kube.sh tools helm kustomize jsonnet registry kwok gateway-api traefik && scripts/gitea.sh build' </dev/null >"$log" 2>&1 &
  set +m
  building=$!
}

real_kubernetes() {
  wait "$building" || { building=""; cat "$SLIPWAY_CACHE/kubernetes-build.log" >&2; return 1; }
  building=""
  # A machine of one's own keeps it for the next time. CI begins with nothing: what a killed session left of a cluster is nobody's.
  [ -z "${CI:-}" ] || scripts/kube.sh down
  kubeconfig=$(scripts/kube.sh up)
}

# The program and all tests in one go: asking for the package `slipway` alone would choose other features of what both stand on, and
# compile most of it twice. Before anything waits for the real Kubernetes, which is compiled beside it the first time.
# Clippy's driver is the compiler of our own crates: lints and programs come out of one pass instead of two.
export RUSTC_WORKSPACE_WRAPPER=clippy-driver
export CLIPPY_ARGS=--deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
# What a second build would reuse is written beside each crate: 5 GB, and a clean clone has no second build.
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0
build() {
  cargo test --quiet --locked --workspace --no-run
}

unit_and_integration() {
  SLIPWAY_REAL_KUBECONFIG=$kubeconfig node scripts/run-tests.mjs && return
  # Pods that never started have their reason there, and `leave` removes it.
  scripts/kube.sh status || true
  return 1
}

part "set-up" 10 scripts/setup.sh test
build_kubernetes
part "formatting" 5 cargo fmt --check
part "rooms" 5 cargo xtask tidy
part "dependencies" 5 scripts/deny.sh
part "web checks" 30 web_checks
part "web build" 10 make --no-print-directory web/dist/index.html
part "lints and build" 150 build
part "conformance" 10 conformance
part "contract" 60 scripts/schemathesis.sh "$CARGO_TARGET_DIR/debug/slipway"
part "real Kubernetes" 15 real_kubernetes
part "unit and integration" 600 unit_and_integration
part "tests that documents name" 5 cargo xtask tidy --ran "$CARGO_TARGET_DIR/tests-ran.txt"
# Both wait for most of their time. Not beside compilers or the tests above, which use the whole machine: pages have limits of time as people have patience.
begin "web pages" web_pages
part "end to end" 300 end_to_end
finish "web pages" 300
[ -z "$over" ] || echo "Over budget:$over see docs/results/ci.md"
[ -z "$over" ] || [ -z "${SLIPWAY_HOLD_BUDGET:-}" ] || { echo "SLIPWAY_HOLD_BUDGET is set: that is a failure" >&2; exit 1; }
echo "All parts hold, $SECONDS s."
