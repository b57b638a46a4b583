#!/usr/bin/env bash
# The container image of Slipway, from a program that is built: that program, the executor of Workflows, git, ssh, gpgv, helm, kustomize and jsonnet with the libraries
# that they ask for, the certificates of the system's authorities, and busybox for the one shell that git needs. Nothing is pulled.
# usage: scripts/image.sh root PROGRAM FOLDER             fill a folder with the root file system
#        scripts/image.sh build PROGRAM REFERENCE         make the image with buildah, in this machine's storage
#        scripts/image.sh bundle PROGRAM FILE.tar         image, charts, custom resource definitions and checksums, for places without internet
set -euo pipefail
cd "$(dirname "$0")/.."
user=10001
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "error: $*" >&2; exit 1; }

# A program, with every library that it is linked with, at the paths where the loader looks.
add() {
  local from to=$3
  from=$(command -v "$2") || fail "$2 is needed for the image; scripts/setup.sh test installs it"
  from=$(readlink -f "$from")
  mkdir -p "$1$(dirname "$to")"
  cp --dereference "$from" "$1$to"
  libraries "$1" "$from"
}

libraries() {
  local library
  # A static program names none.
  { ldd "$2" 2>/dev/null | grep -oE '/[^ ]+' || true; } | while read -r library; do
    [ -e "$1$library" ] && continue
    mkdir -p "$1$(dirname "$library")"
    cp --dereference "$library" "$1$library"
  done
}

root() {
  local program=$1 folder=$2 tool helper
  [ -x "$program" ] || fail "there is no program $program; make build leaves target/release/slipway"
  [ -z "$(ls -A "$folder" 2>/dev/null)" ] || fail "$folder is not empty"
  mkdir -p "$folder"/{usr/bin,usr/lib/git-core,usr/lib64,etc/ssl/certs,tmp,data,home,proc,sys,dev,run}
  chmod 1777 "$folder/tmp"
  chown "$user:$user" "$folder/data" "$folder/home"
  ln -s usr/bin "$folder/bin"
  ln -s usr/lib "$folder/lib"
  ln -s usr/lib64 "$folder/lib64"
  cp "$program" "$folder/usr/bin/slipway"
  strip --strip-debug "$folder/usr/bin/slipway"
  libraries "$folder" "$program"
  cp "$(scripts/executor.sh)" "$folder/slipway-executor"
  for tool in git ssh gpgv; do add "$folder" "$tool" "/usr/bin/$tool"; done
  for helper in git-remote-http git-http-backend; do
    cp --dereference "$(git --exec-path)/$helper" "$folder/usr/lib/git-core/$helper"
    libraries "$folder" "$(git --exec-path)/$helper"
  done
  ln -s git-remote-http "$folder/usr/lib/git-core/git-remote-https"
  add "$folder" busybox /usr/bin/busybox
  ln -s busybox "$folder/usr/bin/sh"
  scripts/kube.sh tools helm kustomize jsonnet | while read -r tool; do cp "$tool" "$folder/usr/bin/"; done
  cp --dereference /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/ca-certificates.crt"
  printf 'root:x:0:0:root:/root:/bin/sh\nslipway:x:%s:%s:slipway:/home:/bin/sh\n' $user $user >"$folder/etc/passwd"
  printf 'root:x:0:\nslipway:x:%s:\n' $user >"$folder/etc/group"
  echo 'hosts: files dns' >"$folder/etc/nsswitch.conf"
}

build() {
  local program=$1 reference=$2 container
  command -v buildah >/dev/null || fail "buildah is needed to make the image: apt-get install buildah"
  root "$program" "$work/root"
  container=$(buildah from scratch)
  buildah copy --quiet "$container" "$work/root" / >/dev/null
  buildah config --user "$user:$user" --env PATH=/usr/bin --env HOME=/home --workingdir /data --port 8080 \
    --entrypoint '["/usr/bin/slipway"]' --label org.opencontainers.image.title=slipway \
    --label "org.opencontainers.image.version=$("$program" version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)" "$container"
  buildah commit --quiet --rm "$container" "$reference" >/dev/null
  echo "$reference"
}

bundle() {
  local program=$1 file=$2 folder=$work/bundle version chart
  mkdir "$folder"
  version=$("$program" version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)
  build "$program" "localhost/slipway:$version" >/dev/null
  buildah push --quiet "localhost/slipway:$version" "oci-archive:$folder/slipway-image-$version.tar:slipway:$version"
  for chart in deploy/charts/*/; do
    "$(scripts/kube.sh tools helm)" package --destination "$folder" "$chart" >/dev/null
  done
  "$program" crds >"$folder/crds.yaml"
  (cd "$folder" && sha256sum -- * >SHA256SUMS)
  tar --create --file "$file" --directory "$folder" --sort=name --owner=0 --group=0 --numeric-owner .
  echo "$file"
}

case "${1:-}" in
  root | build | bundle)
    [ $# = 3 ] || fail "usage: scripts/image.sh $1 PROGRAM $([ "$1" = root ] && echo FOLDER || { [ "$1" = build ] && echo REFERENCE || echo FILE.tar; })"
    "$@"
    ;;
  *) sed -n '2,7s/^# //p' "$0" >&2; exit 2 ;;
esac
