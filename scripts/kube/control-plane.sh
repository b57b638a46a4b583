# Sourced by scripts/kube.sh: etcd, the API server, controllers and the scheduler, outside the node's namespace.

start_etcd() {
  local disk=()
  # Tests that are about what a power cut leaves ask for --fsync; the others need not wait for the disk.
  [[ $(cat "$dir/mode") == *fsync=yes* ]] || disk=(--unsafe-no-fsync)
  start etcd "$kubernetes/etcd" --name default --data-dir "$dir/etcd" "${disk[@]}" \
    --listen-client-urls "http://$local_ip:2379" --advertise-client-urls "http://$local_ip:2379" \
    --listen-peer-urls "http://$local_ip:2380" --initial-advertise-peer-urls "http://$local_ip:2380" \
    --initial-cluster "default=http://$local_ip:2380"
}

etcd_answers() { curl -sf --max-time 2 "http://$local_ip:2379/health"; }

start_apiserver() {
  local pki=$dir/pki
  start apiserver "$kubernetes/kube-apiserver" --bind-address="$host_ip" --secure-port=6443 --advertise-address="$host_ip" \
    --etcd-servers="http://$local_ip:2379" --service-cluster-ip-range="$services" --cert-dir="$dir/run" \
    --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" --client-ca-file="$pki/ca.crt" \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$pki/service-accounts.key" \
    --service-account-signing-key-file="$pki/service-accounts.key" \
    --authorization-mode=Node,RBAC --allow-privileged=true \
    --kubelet-client-certificate="$pki/admin.crt" --kubelet-client-key="$pki/admin.key" \
    --kubelet-certificate-authority="$pki/ca.crt" --kubelet-preferred-address-types=InternalIP \
    --requestheader-client-ca-file="$pki/ca.crt" --requestheader-allowed-names=aggregator \
    --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
    --requestheader-extra-headers-prefix=X-Remote-Extra- \
    --proxy-client-cert-file="$pki/aggregator.crt" --proxy-client-key-file="$pki/aggregator.key"
}

api_is_ready() { k get --raw /readyz; }

start_controllers() {
  local pki=$dir/pki grace=16s
  # A node that stopped answering is told after 16 s instead of 50: fault tests wait for that. Thousands of fake ones
  # renew their leases less often.
  [[ $(cat "$dir/mode") != nodes=fake* ]] || grace=50s
  # Claims get folders under /tmp/hostpath_pv; there is no other storage here.
  start controller-manager "$kubernetes/kube-controller-manager" --kubeconfig="$dir/kubeconfig" --bind-address="$local_ip" \
    --cert-dir="$dir/run" --leader-elect=false --use-service-account-credentials=true \
    --service-account-private-key-file="$pki/service-accounts.key" --root-ca-file="$pki/ca.crt" \
    --cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key" \
    --controllers='*,-node-ipam-controller' --enable-hostpath-provisioner=true \
    --node-monitor-period=2s --node-monitor-grace-period=$grace --kube-api-qps=200 --kube-api-burst=400
  start scheduler "$kubernetes/kube-scheduler" --kubeconfig="$dir/kubeconfig" --bind-address="$local_ip" \
    --cert-dir="$dir/run" --leader-elect=false --kube-api-qps=200 --kube-api-burst=400
}

control_plane_up() {
  start_etcd
  wait_for etcd 30 "etcd's first answer" etcd_answers
  start_apiserver
  wait_for apiserver 300 "the API being ready" api_is_ready
  start_controllers
  wait_for controller-manager 60 "the default service account" k get serviceaccount default
}

# Objects that charts and tests expect in every cluster.
objects_up() {
  {
    cat <<YAML
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/host-path
YAML
    [[ $(cat "$dir/mode") == nodes=fake* ]] || cat <<YAML
---
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec:
  clusterIP: $dns_service_ip
  ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
endpoints: [{addresses: [$node_ip], conditions: {ready: true}}]
ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]
YAML
  } | k apply --server-side --force-conflicts --field-manager=kube.sh -f - >/dev/null
}
