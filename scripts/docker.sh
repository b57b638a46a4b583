#!/usr/bin/env bash
# A Docker engine for the tests. One that answers already is used; else one is started at Docker's usual address, with
# everything it keeps in the cache folder and no change to the machine's firewall.
# usage: scripts/docker.sh up|down
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin
place=${SLIPWAY_CACHE:-$HOME/.cache/slipway}/docker
pid=$place/docker.pid

answers() { docker info --format '{{.ServerVersion}}' >/dev/null 2>&1; }

case ${1:-} in
  up)
    mkdir -p "$place"
    exec 9>"$place/lock"
    # Tests of several processes ask at once.
    flock 9
    answers && exit 0
    command -v dockerd >/dev/null || { echo "error: dockerd is not installed: scripts/setup.sh test installs it" >&2; exit 1; }
    rm -f "$pid"
    setsid dockerd --data-root "$place/data" --exec-root "$place/run" --pidfile "$pid" \
      --iptables=false --ip6tables=false --ip-masq=false --ip-forward=false </dev/null >"$place/log" 2>&1 9>&- &
    for _ in $(seq 600); do
      answers && exit 0
      kill -0 $! 2>/dev/null || break
      sleep 0.1
    done
    echo "error: dockerd does not answer; the end of $place/log:" >&2
    tail -5 "$place/log" >&2
    exit 1
    ;;
  down)
    [ -s "$pid" ] && kill "$(cat "$pid")" 2>/dev/null || exit 0
    for _ in $(seq 300); do kill -0 "$(cat "$pid" 2>/dev/null || echo 0)" 2>/dev/null && [ -s "$pid" ] || exit 0; sleep 0.1; done
    ;;
  *)
    sed -n '2,4s/^# //p' "$0" >&2
    exit 2
    ;;
esac
