# Sourced by scripts/kube.sh: the one real node, in its network namespace: containerd, kubelet, kube-proxy, CoreDNS.

containers_up() {
  node_prefix
  mkdir -p "$dir"/containerd "$dir"/cni "$dir/registries/localhost:5000" "$dir/registries/$host_ip:5000"
  # Memory limits are fine here, but scores and limits of this machine may not be raised: hence restrict_oom_score_adj.
  cat >"$dir/containerd/config.toml" <<TOML
version = 2
root = "$dir/containerd/root"
state = "$dir/containerd/state"
[grpc]
  address = "$dir/containerd/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "$dir/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$pause_image"
  restrict_oom_score_adj = true
  disable_apparmor = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$dir/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "$dir/registries"
TOML
  cat >"$dir/cni/10-pods.conflist" <<JSON
{"cniVersion": "0.4.0", "name": "$netns", "plugins": [{"type": "bridge", "bridge": "pods0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "$dir/cni-addresses", "ranges": [[{"subnet": "$pods"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
JSON
  # The same manifests serve in every cluster when they say localhost:5000.
  local registry
  for registry in "localhost:5000" "$host_ip:5000"; do
    printf 'server = "http://%s:5000"\n[host."http://%s:5000"]\n  capabilities = ["pull", "resolve"]\n' "$host_ip" "$host_ip" >"$dir/registries/$registry/hosts.toml"
  done
  start containerd "${in_node[@]}" containerd --config "$dir/containerd/config.toml"
  wait_for containerd 30 "containerd's first answer" ctr_ version
  import_standard_images
}

ctr_() { ctr --address "$dir/containerd/containerd.sock" --namespace k8s.io "$@"; }

node_is_ready() {
  [ "$(k get node "$node" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ] || return 1
  # The condition may be from before a restart; the lease is renewed only by a kubelet that lives.
  [[ $(k get lease -n kube-node-lease "$node" -o 'jsonpath={.spec.renewTime}') > $kubelet_since ]]
}

node_takes_pods() { [ -z "$(k get node "$node" -o 'jsonpath={.spec.taints}{.spec.unschedulable}')" ]; }

# For whoever asks why no pod starts.
explain_node() {
  k get node "$node" -o 'jsonpath={range .status.conditions[*]}  condition {.type}={.status} since {.lastTransitionTime}: {.reason}: {.message}{"\n"}{end}{range .spec.taints[*]}  taint {.key}:{.effect} since {.timeAdded}{"\n"}{end}'
  local part
  for part in kubelet containerd; do
    echo "  the last errors of $part ($dir/logs/$part.log):"
    grep -E '^[EF][0-9]{4} |level=(error|fatal)' "$dir/logs/$part.log" | tail -n 8 | cut -c1-400 | sed 's/^/    /' || true
  done
}

node_up() {
  node_prefix
  cat >"$dir/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $dir/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $dir/pki/kubelet.crt
tlsPrivateKeyFile: $dir/pki/kubelet.key
containerRuntimeEndpoint: unix://$dir/containerd/containerd.sock
podLogsDir: $dir/logs/pods
cgroupDriver: cgroupfs
cgroupsPerQOS: false
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
localStorageCapacityIsolation: false
oomScoreAdj: 0
resolvConf: ""
clusterDNS: [$dns_service_ip]
clusterDomain: cluster.local
maxPods: 250
syncFrequency: 5s
nodeStatusUpdateFrequency: 2s
nodeLeaseDurationSeconds: 8
serializeImagePulls: false
kubeAPIQPS: 200
kubeAPIBurst: 400
eventRecordQPS: 0
# 0% switches a threshold off. What the kubelet takes for available memory leaves out pages of files in use, of which compilers
# leave many; one look below the threshold would keep every pod away for five minutes.
evictionHard: {memory.available: "0%"}
imageGCHighThresholdPercent: 100 # images here come from no registry: what is collected is lost
YAML
  alive kubelet || kubelet_since=$(date -u +%FT%T)
  if alive kubelet; then kill -CONT "$(pid_of kubelet)"; kubelet_since=$(date -u +%FT%T); fi
  start kubelet "${in_node[@]}" "$kubernetes/kubelet" --config="$dir/kubelet.yaml" --kubeconfig="$dir/pki/kubelet.kubeconfig" \
    --hostname-override="$node" --node-ip="$node_ip" --root-dir="$dir/kubelet"
  cat >"$dir/Corefile" <<CORE
. {
  bind $node_ip
  errors
  ready $node_ip:8181
  hosts {
    $host_ip host.slipway.test
    fallthrough
  }
  kubernetes cluster.local in-addr.arpa ip6.arpa {
    kubeconfig $dir/kubeconfig $name
    pods insecure
    ttl 1
  }
}
CORE
  start dns "${in_node[@]}" "$coredns/coredns" -conf "$dir/Corefile"
  wait_for kubelet 300 "node $node being Ready" node_is_ready
  # It may be Ready and still be kept free of pods: by what an earlier life of it left, or by pressure.
  wait_for kubelet 300 "node $node taking pods" node_takes_pods
  cat >"$dir/proxy.yaml.new" <<YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clusterCIDR: $pods
hostnameOverride: $node
clientConnection: {kubeconfig: $dir/kubeconfig}
oomScoreAdj: 0
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
iptables: {minSyncPeriod: 100ms, syncPeriod: 30s}
YAML
  # kube-proxy ends when its file is written, also with the same words.
  cmp -s "$dir/proxy.yaml.new" "$dir/proxy.yaml" || mv "$dir/proxy.yaml.new" "$dir/proxy.yaml"
  start proxy "${in_node[@]}" "$kubernetes/kube-proxy" --config="$dir/proxy.yaml"
  wait_for dns 60 "CoreDNS being ready" "${in_node[@]}" curl -sf --max-time 2 "http://$node_ip:8181/ready"
  wait_for proxy 60 "kube-proxy's first rules" "${in_node[@]}" curl -sf --max-time 2 http://127.0.0.1:10256/healthz
}

# Works on what is there: also after a kill of everything, or of half of it.
node_down() {
  local part try path id bundles=$dir/containerd/state/io.containerd.runtime.v2.task/k8s.io ids=()
  for part in kubelet proxy dns; do stop "$part" KILL 10; done
  for path in "$bundles"/*/; do [ ! -d "$path" ] || ids+=("$(basename "$path")"); done
  for try in {1..100}; do
    kill_shims
    kill_containers "${ids[@]}" && break
    sleep 0.1
  done
  # The sockets of the shims are outside the folder; the bundles say where.
  for path in "$bundles"/*/address; do
    [ ! -e "$path" ] || rm -f "$(sed 's|^unix://||' "$path")"
  done
  stop containerd KILL 10
  for try in {1..10}; do
    grep -qF " $dir/" /proc/self/mounts || break
    awk -v under="$dir/" 'index($2, under) == 1 { print $2 }' /proc/self/mounts | sort -ru |
      while read -r path; do umount -l "$(printf %b "$path")" 2>/dev/null || true; done
  done
  for id in "${ids[@]}"; do
    find /sys/fs/cgroup/k8s.io/"$id" /sys/fs/cgroup/*/k8s.io/"$id" -depth -type d -exec rmdir {} + 2>/dev/null || true
    rm -f /var/lib/cni/results/*"-$id-"*
  done
  [ ! -d /var/log/containers ] || find /var/log/containers -lname "$dir/*" -delete
}

# A shim outlives its containerd, and would start nothing again but keep mounts. Its arguments name the socket.
kill_shims() {
  local file
  for file in $(grep -lszxF "$dir/containerd/containerd.sock" /proc/[0-9]*/cmdline 2>/dev/null || true); do
    file=${file#/proc/}
    kill -KILL "${file%/cmdline}" 2>/dev/null || true
  done
}

# Succeeds when no process of these containers is left.
kill_containers() { # ids
  local id pids=
  for id in "$@"; do
    pids+=" $(cat /sys/fs/cgroup/k8s.io/"$id"/cgroup.procs /sys/fs/cgroup/*/k8s.io/"$id"/cgroup.procs 2>/dev/null || true)"
  done
  [[ $pids =~ [0-9] ]] || return 0
  # shellcheck disable=SC2086
  kill -KILL $pids 2>/dev/null || true
  return 1
}
