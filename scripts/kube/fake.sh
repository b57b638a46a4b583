# Sourced by scripts/kube.sh: nodes and pods that exist in the API only, by the thousand (kwok).

fake_nodes_up() { # count
  kwok=$(tool kwok)
  start kwok "$kwok" --kubeconfig="$dir/kubeconfig" --config="${kwok%/*}/stages.yaml" --manage-all-nodes=true --cidr="$pods" --node-ip="$node_ip" \
    --server-address="$local_ip:10247"
  local number
  for ((number = 0; number < $1; number++)); do
    cat <<YAML
---
apiVersion: v1
kind: Node
metadata:
  name: $node-$number
  annotations: {node.alpha.kubernetes.io/ttl: "0", kwok.x-k8s.io/node: fake}
  labels: {type: kwok, kubernetes.io/hostname: $node-$number, kubernetes.io/os: linux, kubernetes.io/arch: amd64, kubernetes.io/role: agent}
status:
  allocatable: {cpu: "32", memory: 256Gi, pods: "250"}
  capacity: {cpu: "32", memory: 256Gi, pods: "250"}
YAML
  done | k apply -f - >/dev/null
  wait_for kwok 120 "all $1 nodes being Ready" fake_nodes_are_ready "$1"
}

fake_nodes_are_ready() {
  [ "$(k get nodes --no-headers | awk '$2 == "Ready"' | wc -l)" -ge "$1" ]
}
