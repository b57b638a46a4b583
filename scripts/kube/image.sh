# Sourced by scripts/kube.sh: images from folders, the images of the tests, the registry.
# Nothing is fetched: the files are those of this machine.
pause_image=localhost/slipway-pause:1
test_image=localhost/slipway-test:1
images=$clusters/images

json_text() {
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  text=${text//$'\n'/\\n}
  printf '"%s"' "$text"
}

# archive FOLDER REFERENCE FILE [COMMAND…]: a docker archive with one layer. The same folder gives the same bytes.
archive() {
  local folder=$1 reference=$2 file=$3 command='' word layer config machine=amd64
  shift 3
  for word in "$@"; do command+=${command:+,}$(json_text "$word"); done
  [ "$(uname -m)" != aarch64 ] || machine=arm64
  local work=$file.making-$$
  rm -rf "$file".making-* && mkdir -p "$work"
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$folder" -cf "$work/layer.tar" .
  layer=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
  printf '{"architecture":"%s","os":"linux","config":{"Env":["PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"],"Cmd":[%s]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$machine" "$command" "$layer" >"$work/config.json"
  config=$(sha256sum "$work/config.json" | cut -d' ' -f1)
  mv "$work/config.json" "$work/$config.json"
  printf '[{"Config":"%s.json","RepoTags":[%s],"Layers":["layer.tar"]}]' "$config" "$(json_text "$reference")" >"$work/manifest.json"
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$work" -cf "$work.tar" "$config.json" layer.tar manifest.json
  mv "$work.tar" "$file"
  rm -rf "$work"
}

# add_program TREE PROGRAM: with the libraries that it names.
add_program() {
  local program library
  program=$(command -v "$2") || fail "$2 is needed for the test image; scripts/setup.sh test installs it"
  mkdir -p "$1/bin"
  cp -L "$program" "$1/bin/$2"
  # A static program names none.
  { ldd "$program" 2>/dev/null | grep -oE '/[^ ]+' || true; } | while read -r library; do
    mkdir -p "$1$(dirname "$library")"
    cp -L "$library" "$1$library"
  done
}

# busybox for everything, and a curl of its own: the resolver of the static busybox of Debian crashes.
make_standard_images() {
  [ -e "$images/test-1.tar" ] && [ -e "$images/pause-1.tar" ] && return
  mkdir -p "$images"
  exec 8>"$images/.lock"
  flock 8
  local tree=$images/tree applet
  rm -rf "$tree" && mkdir -p "$tree"/{bin,etc,tmp,proc,sys,dev,root,www}
  add_program "$tree" busybox
  for applet in $(busybox --list); do [ "$applet" = busybox ] || ln -s busybox "$tree/bin/$applet"; done
  add_program "$tree" curl
  echo 'root:x:0:0:root:/root:/bin/sh' >"$tree/etc/passwd"
  echo 'root:x:0:' >"$tree/etc/group"
  echo 'hosts: files dns' >"$tree/etc/nsswitch.conf"
  chmod 1777 "$tree/tmp"
  archive "$tree" "$pause_image" "$images/pause-1.tar" /bin/sleep 2147483647
  archive "$tree" "$test_image" "$images/test-1.tar" /bin/sh
  rm -rf "$tree"
  exec 8>&-
}

import_standard_images() {
  make_standard_images
  local have
  have=$(ctr_ images list -q)
  grep -qxF "$pause_image" <<<"$have" || ctr_ images import "$images/pause-1.tar" >/dev/null
  grep -qxF "$test_image" <<<"$have" || ctr_ images import "$images/test-1.tar" >/dev/null
}

import_folder() {
  [ $# -ge 2 ] || fail "image needs a folder, a reference such as localhost/web:1, and perhaps a command; see scripts/kube.sh help"
  local folder=$1 reference=$2 file
  shift 2
  [ -d "$folder" ] || fail "there is no folder $folder to make an image from"
  [ -S "$dir/containerd/containerd.sock" ] || fail "cluster $name has no containers here; NAME=$name make kube-up starts it"
  mkdir -p "$images"
  file=$(mktemp -u "$images/folder-XXXXXXXX.tar")
  archive "$folder" "$reference" "$file" "$@"
  ctr_ images import "$file" >/dev/null
  rm -f "$file"
  echo "$reference"
}

# Pods name its images localhost:5000/…; pushes from this machine go to the printed address, without TLS.
registry_up() {
  must_be_root
  tool registry >/dev/null
  take_lock
  [ -e "$dir/slot" ] || fail "there is no cluster $name; NAME=$name make kube-up starts it"
  open_slot
  cat >"$dir/registry.yaml" <<YAML
version: 0.1
log: {level: warn}
storage: {filesystem: {rootdirectory: $dir/registry}, delete: {enabled: true}}
http: {addr: "$host_ip:5000"}
YAML
  start_registry
  echo "$host_ip:5000"
}

start_registry() {
  OTEL_TRACES_EXPORTER=none start registry "$(tool registry)" serve "$dir/registry.yaml"
  wait_for registry 30 "the registry's first answer" curl -sf --max-time 2 "http://$host_ip:5000/v2/"
}
