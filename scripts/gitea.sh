#!/usr/bin/env bash
# A real Gitea on this machine, for tests: a Git provider with webhooks and an identity provider with OpenID Connect.
# Built once from its Go module into the cache; each run has a folder and a port of its own, on loopback.
set -Eeuo pipefail
trap 'echo "error: $BASH_COMMAND failed at ${BASH_SOURCE##*/}:$LINENO" >&2' ERR
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for part in lib build; do
  # shellcheck source=/dev/null
  . "$here/kube/$part.sh"
done
say() { echo "gitea: $*" >&2; }
gitea_version=1.26.0
home=$cache/gitea-$gitea_version/bin
# It refuses to run as root otherwise; it listens on loopback only.
export GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT=true

usage() {
  cat <<'TEXT'
usage: scripts/gitea.sh VERB [ARGUMENTS]

  build                    build it if it is not there; prints the path of the program
  configure FOLDER PORT    write FOLDER/app.ini for 127.0.0.1:PORT, without starting anything
  start FOLDER PORT        configure, start and wait; prints its address and, the first time, its administrator
  stop FOLDER              end it; the folder stays
TEXT
}

# Its pages are templates beside the program; the parts that a bundler would make are not needed to serve forms.
# Whoever calls this asks whether it succeeded, so that every step has to say so itself.
from_gitea_module() {
  local module source=$out.source
  rm -rf "$source"
  module=$(go mod download -json "code.gitea.io/gitea@v$gitea_version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p') &&
    cp -r "$module" "$source" &&
    chmod -R u+w "$source" &&
    (cd "$source" && CGO_ENABLED=1 go build -v -trimpath -tags "sqlite sqlite_unlock_notify" \
      -ldflags "-s -w -X main.Version=$gitea_version" -o "$out/gitea" .) &&
    mv "$source/options" "$source/templates" "$source/public" "$out/" &&
    rm -rf "$source"
}

build_gitea() {
  # A first version of this script took a build that was cut short for a whole one.
  [ -x "$home/gitea" ] || rm -f "$home/.made-from"
  packages_total=1400 build "gitea-$gitea_version" "$gitea_version sqlite" from_gitea_module
}

configure() { # folder port
  mkdir -p "$1"
  [ ! -s "$1/app.ini" ] || return 0
  cat >"$1/app.ini.new" <<INI
APP_NAME = Gitea
RUN_MODE = prod
RUN_USER = $(id -un)
WORK_PATH = $1
[server]
PROTOCOL = http
HTTP_ADDR = 127.0.0.1
HTTP_PORT = $2
DOMAIN = 127.0.0.1
ROOT_URL = http://127.0.0.1:$2/
STATIC_ROOT_PATH = $home
APP_DATA_PATH = $1/data
DISABLE_SSH = true
OFFLINE_MODE = true
LFS_START_SERVER = true
[database]
DB_TYPE = sqlite3
PATH = $1/gitea.db
[repository]
ROOT = $1/repositories
[security]
INSTALL_LOCK = true
; Cheap on purpose: these passwords protect nothing.
PASSWORD_HASH_ALGO = pbkdf2_v1
[service]
DISABLE_REGISTRATION = true
[webhook]
ALLOWED_HOST_LIST = *
[migrations]
ALLOW_LOCALNETWORKS = true
[session]
PROVIDER = memory
[indexer]
ISSUE_INDEXER_TYPE = db
[picture]
DISABLE_GRAVATAR = true
[cron]
ENABLED = false
[actions]
ENABLED = false
[log]
MODE = console
LEVEL = warn
INI
  mv "$1/app.ini.new" "$1/app.ini"
}

start() {
  local folder port=${2:?start FOLDER PORT} began=$SECONDS
  mkdir -p "${1:?start FOLDER PORT}"
  folder=$(cd "$1" && pwd)
  build_gitea
  configure "$folder" "$port"
  if [ -s "$folder/gitea.pid" ] && kill -0 "$(cat "$folder/gitea.pid")" 2>/dev/null; then
    echo "http://127.0.0.1:$port"
    return
  fi
  setsid "$home/gitea" web --config "$folder/app.ini" --work-path "$folder" </dev/null >"$folder/gitea.log" 2>&1 &
  echo $! >"$folder/gitea.pid"
  until curl -fs -o /dev/null "http://127.0.0.1:$port/api/healthz"; do
    kill -0 "$(cat "$folder/gitea.pid")" 2>/dev/null || { cat "$folder/gitea.log" >&2; fail "Gitea ended"; }
    [ $((SECONDS - began)) -lt 60 ] || { cat "$folder/gitea.log" >&2; fail "Gitea is not ready after 60 s"; }
    sleep 0.2
  done
  echo "http://127.0.0.1:$port"
  if [ ! -e "$folder/administrator" ]; then
    local password
    password=$(head -c 12 /dev/urandom | od -An -tx1 | tr -d ' \n')
    "$home/gitea" admin user create --config "$folder/app.ini" --work-path "$folder" --admin --username root-admin \
      --email root@gitea.example --password "$password" --must-change-password=false >/dev/null
    (umask 077 && echo "root-admin $password" >"$folder/administrator")
    cat "$folder/administrator"
  fi
}

stop() {
  local note=${1:?stop FOLDER}/gitea.pid pid
  [ -s "$note" ] || return 0
  pid=$(cat "$note")
  kill "$pid" 2>/dev/null || true
  while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
  rm -f "$note"
}

verb=${1:-help}
[ $# -eq 0 ] || shift
case $verb in
  build) build_gitea && echo "$home/gitea" ;;
  configure) configure "${1:?configure FOLDER PORT}" "${2:?configure FOLDER PORT}" ;;
  start) start "$@" ;;
  stop) stop "$@" ;;
  help | -h | --help) usage ;;
  *) usage >&2; fail "there is no verb $verb" ;;
esac
