# Sourced by scripts/kube.sh: an authority for the cluster, certificates, kubeconfigs.

make_pki() {
  [ -e "$dir/kubeconfig" ] && return
  # Made aside and renamed: a call that is killed half way leaves nothing that looks whole.
  local work=$dir/pki.new
  rm -rf "$work" "$dir/pki"
  mkdir -p "$work" && chmod 700 "$work"
  (
    cd "$work"
    local ec=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
    openssl genrsa -out service-accounts.key 2048
    openssl req -x509 "${ec[@]}" -keyout ca.key -out ca.crt -subj "/CN=slipway-kube-$name" -days 3650
    certificate() { # file subject names
      openssl req "${ec[@]}" -keyout "$1.key" -out "$1.csr" -subj "$2"
      openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -out "$1.crt" -days 3650 \
        -extfile <(printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth' "$3")
    }
    local names=DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local
    certificate apiserver /CN=kube-apiserver "$names,IP:127.0.0.1,IP:$host_ip,IP:$api_service_ip"
    certificate admin /O=system:masters/CN=admin DNS:admin
    certificate kubelet "/O=system:nodes/CN=system:node:$node" "DNS:$node,IP:$node_ip,IP:127.0.0.1"
    certificate aggregator /CN=aggregator DNS:aggregator
  ) 2>"$dir/logs/pki.log" || { cat "$dir/logs/pki.log" >&2; fail "the cluster's certificates could not be made"; }
  mv "$work" "$dir/pki"
  kubeconfig kubelet >"$dir/pki/kubelet.kubeconfig"
  (umask 077 && kubeconfig admin >"$dir/kubeconfig.new") && mv "$dir/kubeconfig.new" "$dir/kubeconfig"
}

# With everything inside, so that it can be copied to where a test wants it.
kubeconfig() { # user
  cat <<YAML
apiVersion: v1
kind: Config
current-context: $name
clusters:
  - name: $name
    cluster:
      server: https://$host_ip:6443
      certificate-authority-data: $(base64 -w0 "$dir/pki/ca.crt")
users:
  - name: $1
    user:
      client-certificate-data: $(base64 -w0 "$dir/pki/$1.crt")
      client-key-data: $(base64 -w0 "$dir/pki/$1.key")
contexts:
  - name: $name
    context:
      cluster: $name
      user: $1
YAML
}
