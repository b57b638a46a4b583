# Sourced by scripts/kube.sh: where things are, slots and locks, long-running processes, waiting.
cache=${SLIPWAY_CACHE:-$HOME/.cache/slipway}
clusters=$cache/kube

say() { echo "kube: $*" >&2; }
fail() { echo "error: $*" >&2; exit 1; }
must_be_root() { [ "$(id -u)" = 0 ] || fail "a cluster needs root for network namespaces and containers; run it with sudo"; }
# Debian keeps some of these out of the path of ordinary users.
export PATH=$PATH:/usr/sbin:/sbin

use_cluster() {
  name=$1
  [[ $name =~ ^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$ ]] || fail "a cluster's name is lowercase letters, digits and dashes, at most 32; not '$name'"
  dir=$clusters/$name
}
use_cluster "${NAME:-test}"

# ── slots: everything that must differ between clusters on one machine comes from a small number ──

addresses() { # of the slot
  host_ip=10.248.$slot.1 # this machine, seen from the cluster; the API listens here
  node_ip=10.248.$slot.2
  local_ip=127.83.$slot.1 # etcd and the health ports, not reachable from pods
  pods=10.$((216 + slot)).0.0/16
  services=10.$((232 + slot)).0.0/16
  api_service_ip=10.$((232 + slot)).0.1
  dns_service_ip=10.$((232 + slot)).0.10
  link=slipway$slot
  netns=slipway-kube-$slot
  node=slipway-$name
}

open_slot() {
  slot=$(cat "$dir/slot")
  addresses
}

# One writer at a time on a cluster. Processes that are started must not inherit the lock: see start.
take_lock() {
  mkdir -p "$clusters"
  exec 9>"$clusters/$name.lock"
  flock -n 9 || { say "somebody else works on cluster $name; waiting"; flock 9; }
}

open_cluster() {
  take_lock
  mkdir -p "$dir" && chmod 711 "$dir"
  mkdir -p "$dir"/{run,logs}
  if [ ! -s "$dir/slot" ]; then
    exec 7>"$clusters/slots.lock"
    flock 7
    local taken candidate
    taken=" $({ cat "$clusters"/*/slot 2>/dev/null || true; } | tr '\n' ' ') "
    for candidate in {0..15}; do
      # An interface without a folder here belongs to a cluster of another cache folder.
      [[ $taken == *" $candidate "* ]] || ip link show "slipway$candidate" >/dev/null 2>&1 || break
      candidate=none
    done
    [ "$candidate" != none ] || fail "16 clusters are the most on one machine; end one with NAME=… make kube-down"
    echo "$candidate" >"$dir/slot.new" && mv "$dir/slot.new" "$dir/slot"
    exec 7>&-
  fi
  open_slot
}

# A cluster keeps its kind of nodes and its kind of disk for life.
settle_mode() {
  local wanted="nodes=$1 fsync=$2"
  [ -e "$dir/mode" ] || echo "$wanted" >"$dir/mode"
  mode=$(cat "$dir/mode")
  [ "$mode" = "$wanted" ] || fail "cluster $name has $mode, and $wanted was asked for; take another NAME, or end this one with NAME=$name make kube-down"
}

parts() {
  case $(cat "$dir/mode" 2>/dev/null || true) in
    nodes=fake*) echo etcd apiserver controller-manager scheduler kwok ;;
    *) echo etcd apiserver controller-manager scheduler containerd kubelet proxy dns ;;
  esac
  [ ! -e "$dir/registry.yaml" ] || echo registry
}

# ── processes ──

pid_of() { cut -d' ' -f1 "$dir/run/$1.pid"; }

# A pid alone may have been given to another process since; with the moment of its start it is unique.
alive() {
  local pid began stat
  [ -e "$dir/run/$1.pid" ] || return 1
  read -r pid began <"$dir/run/$1.pid" || return 1
  stat=$(cat "/proc/$pid/stat" 2>/dev/null) || return 1
  stat=${stat##*) }
  read -r -a stat <<<"$stat"
  # The first thread may be gone before the others, which hold its ports until they are gone too.
  { [ "${stat[0]}" != Z ] || [ "${stat[17]}" -gt 1 ]; } && [ "${stat[19]}" = "$began" ]
}

# start PART COMMAND…: in a session of its own, holding no lock and no pipe of the caller's (who may be waited for until
# all of them are closed). The process writes its own pid file before it becomes the command: a caller that is killed
# here leaves no process that nobody knows.
start() {
  local part=$1
  shift
  alive "$part" && return
  # shellcheck disable=SC2016
  setsid bash -c '
    file=$1; shift
    read -r stat </proc/$$/stat; stat=${stat##*) }; read -r -a stat <<<"$stat"
    for open in /proc/$$/fd/*; do open=${open##*/}; [ "$open" -le 2 ] || eval "exec $open>&-"; done
    echo "$$ ${stat[19]}" >"$file.new" && mv "$file.new" "$file"
    exec "$@"' start "$dir/run/$part.pid" "$@" </dev/null >>"$dir/logs/$part.log" 2>&1 &
  disown
  local try
  for try in {1..100}; do
    [ "$(pid_of "$part" 2>/dev/null)" = $! ] && return
    sleep 0.02
  done
  fail "$part did not start; see $dir/logs/$part.log"
}

# stop PART SIGNAL SECONDS: waits for the end, and insists after SECONDS.
stop() {
  alive "$1" || { rm -f "$dir/run/$1.pid"; return 0; }
  local pid try
  pid=$(pid_of "$1")
  kill -"$2" "$pid" 2>/dev/null || true
  [ "$2" = KILL ] || kill -CONT "$pid" 2>/dev/null || true
  for ((try = 0; try < $3 * 20; try++)); do
    alive "$1" || { rm -f "$dir/run/$1.pid"; return 0; }
    sleep 0.05
  done
  kill -KILL "$pid" 2>/dev/null || true
  while alive "$1"; do sleep 0.05; done
  rm -f "$dir/run/$1.pid"
}

# wait_for PART SECONDS WHAT COMMAND…: until the command succeeds; says early when the part has died.
wait_for() {
  local part=$1 seconds=$2 what=$3 end
  shift 3
  end=$((SECONDS + seconds))
  until "$@" >/dev/null 2>&1; do
    if ! alive "$part"; then
      tail -n 20 "$dir/logs/$part.log" >&2
      fail "$part ended before $what; its log is $dir/logs/$part.log"
    fi
    if [ $SECONDS -ge $end ]; then
      tail -n 20 "$dir/logs/$part.log" >&2
      fail "$what did not happen within $seconds s; the log is $dir/logs/$part.log"
    fi
    sleep 0.1
  done
}

k() { kubectl --kubeconfig "$dir/kubeconfig" --request-timeout=10s "$@"; }

# Everything runs and answers: nothing is left to do.
is_whole() {
  [ -e "$dir/whole" ] || return 1
  local part state
  for part in $(parts); do
    alive "$part" || return 1
    state=$(cut -d')' -f2 "/proc/$(pid_of "$part")/stat" | cut -d' ' -f2)
    [ "$state" != T ] || return 1
  done
  ! network_is_dropped && answers
}

# One slow answer on a busy machine is no broken cluster.
answers() {
  local try
  for try in 1 2 3; do
    k get --raw /readyz >/dev/null 2>&1 && return
    sleep "$try"
  done
  return 1
}
