#!/usr/bin/env bash
# Installs what is missing and can be installed; says what and why before it does. Safe to run again.
# usage: scripts/setup.sh run|kube|test
set -euo pipefail
what=${1:-run}
missing=() why=()

# Debian keeps daemons where only root looks.
export PATH=$PATH:/usr/sbin:/sbin

need() { # command package reason
  command -v "$1" >/dev/null 2>&1 && return
  missing+=("$2") why+=("$2: $3")
}

must() { # command how
  command -v "$1" >/dev/null 2>&1 || { echo "error: $1 is needed and cannot be installed by this script: $2" >&2; exit 1; }
}

if [ "$what" != kube ]; then
  must cargo "install Rust 1.95 or newer with rustup"
  must node "install Node.js 20 or newer"
  must npm "install Node.js 20 or newer"
  need git git "the built-in Git host and every fetch use it"
  need cc build-essential "some crates compile C"
  if ! command -v podman >/dev/null 2>&1 && ! docker info >/dev/null 2>&1; then
    need podman podman "builds and pods run in containers"
    need runc runc "podman starts containers with it"
  fi
fi
[ -x /bin/busybox ] || [ -x /usr/bin/busybox ] || { missing+=(busybox-static); why+=("busybox-static: the demo's image is made from it, on this machine"); }
if [ "$what" = test ]; then
  must python3 "install Python 3.10 or newer with its venv module"
  need chromium chromium "the end-to-end test clicks through the pages"
  [ -d /usr/lib/postgresql ] || { missing+=(postgresql); why+=("postgresql: the store's tests run on a real one"); }
  need dockerd docker.io "the contract of executors is tested with Docker too"
  need buildah buildah "the image with which pods build images is made of it"
  need gpg gnupg "the tests sign commits with it"
  need redis-server redis-server "the bus's tests fan out through a real one"
  [ -d /usr/lib/rabbitmq ] || { missing+=(rabbitmq-server); why+=("rabbitmq-server: the bus's tests publish to a real one"); }
  need mkfs.ext4 e2fsprogs "power cuts are simulated on a file system of their own"
fi
if [ "$what" != run ]; then
  must go "install Go 1.26 or newer; the real Kubernetes of the tests is built with it"
  need kubectl kubernetes-client "the tests look at the cluster as a person would"
  need containerd containerd "the real Kubernetes runs its pods with it"
  need runc runc "containerd starts containers with it"
  [ -x /usr/lib/cni/bridge ] || { missing+=(containernetworking-plugins); why+=("containernetworking-plugins: pods get their network from them"); }
  need iptables iptables "service addresses are rules of it"
  need conntrack conntrack "service addresses that move are forgotten with it"
  need ip iproute2 "the node of the real Kubernetes has a network of its own"
  need openssl openssl "the certificates of the real Kubernetes are made with it"
  need curl curl "the test image has it, and clusters are asked with it"
fi

[ ${#missing[@]} -eq 0 ] && exit 0

echo "Slipway needs these packages of the system:"
printf '  %s\n' "${why[@]}"
if ! command -v apt-get >/dev/null 2>&1; then
  echo "note: there is no apt-get here: install them by hand. Without a container engine builds run on the host and pods stay Pending." >&2
  [ "$what" = run ] && exit 0 || exit 1
fi
sudo=
if [ "$(id -u)" != 0 ]; then
  if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then sudo=sudo; else
    echo "note: not root, and sudo asks for a password: run  sudo apt-get install ${missing[*]}" >&2
    [ "$what" = run ] && exit 0 || exit 1
  fi
fi
echo "Installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# The tests start servers of their own; those of the packages stay off.
$sudo env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
