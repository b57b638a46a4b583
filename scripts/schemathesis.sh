#!/usr/bin/env bash
# Throws generated requests, good and bad, at every operation of the OpenAPI document of a running platform: no answer
# may be a server's error, and every status, content type and body has to be as described.
# usage: scripts/schemathesis.sh SLIPWAY-BINARY [EXAMPLES-PER-OPERATION]
set -euo pipefail
cd "$(dirname "$0")/.."
slipway=$1 examples=${2:-10}
version=4.32.5
cache=${SLIPWAY_CACHE:-$HOME/.cache/slipway}
tool=$cache/schemathesis-$version

mkdir -p "$cache"
exec 9>"$cache/schemathesis.lock"
flock 9
if [ ! -f "$tool/.complete" ]; then
  echo "Installing schemathesis $version"
  rm -rf "$tool"
  python3 -m venv "$tool"
  "$tool/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$version"
  touch "$tool/.complete"
fi
flock -u 9

data=$(mktemp -d)
# Nothing of this goes to the contexts of the person whose machine it is.
export SLIPWAY_CONFIG=$data/contexts.json
"$slipway" up --data "$data/data" --listen 127.0.0.1:0 --output json >"$data/ready" 2>"$data/log" &
platform=$!
stop() {
  kill "$platform" 2>/dev/null || true
  wait "$platform" 2>/dev/null || true
  "$slipway" down --data "$data/data" >/dev/null 2>&1 || true
  rm -rf "$data"
}
trap stop EXIT
for _ in $(seq 1 300); do
  [ -s "$data/ready" ] && break
  kill -0 "$platform" 2>/dev/null || { cat "$data/log" >&2; exit 1; }
  sleep 0.1
done
field() { python3 -c 'import json, sys; print(json.loads(open(sys.argv[1]).readline())[sys.argv[2]])' "$data/ready" "$1"; }

"$tool/bin/python" -m schemathesis.cli run openapi/slipway.json --url "$(field url)" \
  --header "Authorization: $(field apiKey)" \
  --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
  --phases examples,coverage,fuzzing --max-examples "$examples" --seed 1 --generation-deterministic \
  --continue-on-failure --request-timeout 30 --warnings off --no-color
