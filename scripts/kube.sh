#!/usr/bin/env bash
# A real Kubernetes on this machine, for tests and benchmarks: built from Go modules, run as processes.
# Each cluster has a name, a folder, a slot that its addresses come from, and a network namespace for its node,
# so that several run beside each other and `down` leaves nothing behind.
set -Eeuo pipefail
trap 'echo "error: $BASH_COMMAND failed at ${BASH_SOURCE##*/}:$LINENO" >&2' ERR
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for part in lib build pki network control-plane image node fake fault; do
  # shellcheck source=/dev/null
  . "$here/kube/$part.sh"
done

usage() {
  cat <<'TEXT'
usage: scripts/kube.sh VERB [ARGUMENTS]     (the cluster is NAME=…, by default `test`)

  up [--nodes real|fake[:N]] [--fsync]   start it, or what is missing of it; prints the path of its kubeconfig
  down                                   end its processes and containers, remove its network and its folder
  status                                 what runs; succeeds when everything does
  fault NAME KIND                        apiserver-restart, etcd-stop, etcd-start, kubelet-pause, kubelet-resume,
                                         network-drop, network-restore
  image FOLDER REFERENCE [COMMAND…]      make an image from a folder and give it to the cluster
  registry                               start the cluster's image registry; prints its address
  build                                  build what `up` needs, without starting anything
  tools NAME…                            build coredns, registry, kwok, helm, kustomize, jsonnet, gateway-api, traefik; prints the paths

Folders: $SLIPWAY_CACHE (default ~/.cache/slipway) holds what is built, and kube/NAME for each cluster.
--nodes fake keeps nodes and pods in the API only (kwok); --fsync makes etcd wait for the disk, as durability tests need.
TEXT
}

up() {
  local nodes=real fsync=no count
  while [ $# -gt 0 ]; do
    case $1 in
      --nodes) nodes=${2:?--nodes needs real or fake[:N]}; shift 2 ;;
      --nodes=*) nodes=${1#*=}; shift ;;
      --fsync) fsync=yes; shift ;;
      *) fail "up does not know $1; see scripts/kube.sh help" ;;
    esac
  done
  case $nodes in
    real) count=1 ;;
    fake) count=10 nodes=fake ;;
    fake:[0-9]*) count=${nodes#fake:} nodes=fake ;;
    *) fail "--nodes is real or fake[:N], not $nodes" ;;
  esac
  must_be_root
  build_core "$nodes"
  open_cluster
  settle_mode "$nodes" "$fsync"
  if is_whole; then
    echo "$dir/kubeconfig"
    return
  fi
  local began=$SECONDS
  network_up
  make_pki
  control_plane_up &
  local control=$!
  if [ "$nodes" = real ]; then containers_up; fi
  wait "$control" || exit 1
  if [ "$nodes" = real ]; then node_up; else fake_nodes_up "$count"; fi
  objects_up
  [ ! -e "$dir/registry.yaml" ] || start_registry
  : >"$dir/whole"
  say "cluster $name is ready after $((SECONDS - began)) s"
  echo "$dir/kubeconfig"
}

down() {
  must_be_root
  take_lock
  if [ ! -e "$dir/slot" ]; then
    rm -rf "$dir"
    say "there is no cluster $name"
    return
  fi
  open_slot
  rm -f "$dir/whole"
  node_down
  local part
  for part in kwok scheduler controller-manager apiserver etcd registry; do stop "$part" KILL 10; done
  network_down
  rm -rf "$dir"
  # Folders of claims (scripts/kube/control-plane.sh). Another cluster may have some: then it stays.
  rmdir /tmp/hostpath_pv 2>/dev/null || true
  say "cluster $name is gone"
}

status() {
  if [ ! -e "$dir/slot" ]; then
    echo "cluster $name: not there; scripts/kube.sh up starts it"
    return 1
  fi
  open_slot
  local whole=0 part
  echo "cluster $name: kubeconfig $dir/kubeconfig, API https://$host_ip:6443, node $node_ip, pods $pods, services $services"
  for part in $(parts); do
    if alive "$part"; then printf '  %-20s runs, pid %s\n' "$part" "$(pid_of "$part")"; else
      printf '  %-20s does not run; see %s\n' "$part" "$dir/logs/$part.log"
      whole=1
    fi
  done
  if k get --raw /readyz >/dev/null 2>&1; then
    k get nodes --no-headers | head -n 20 | sed 's/^/  node /'
    [[ $(cat "$dir/mode") == nodes=fake* ]] || explain_node
  else
    echo "  the API does not answer"
    whole=1
  fi
  return $whole
}

verb=${1:-help}
[ $# -eq 0 ] || shift
case $verb in
  up | down) "$verb" "$@" ;;
  status) status || exit 1 ;;
  build) build_core real ;;
  tools) tools "$@" ;;
  image) import_folder "$@" ;;
  registry) registry_up ;;
  fault)
    [ $# -eq 2 ] || fail "fault needs the cluster's name and what is to happen; see scripts/kube.sh help"
    use_cluster "$1"
    fault "$2"
    ;;
  help | -h | --help) usage ;;
  *) usage >&2; exit 2 ;;
esac
