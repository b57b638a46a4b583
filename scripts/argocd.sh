#!/usr/bin/env bash
# Upstream Argo CD on this machine: the oracle that our GitOps engine is compared with, and the peer of its benchmark.
# Built once from its Go module into the cache (one program whose name chooses the part), without its web pages.
# Its application controller and repository server run as processes beside the cluster, with a Redis of their own.
set -Eeuo pipefail
trap 'echo "error: $BASH_COMMAND failed at ${BASH_SOURCE##*/}:$LINENO" >&2' ERR
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for part in lib build; do
  # shellcheck source=/dev/null
  . "$here/kube/$part.sh"
done
say() { echo "argocd: $*" >&2; }
# The last one whose module resolves: newer ones replace gitops-engine by a folder beside them.
argocd_version=3.2.5
home=$cache/argocd-$argocd_version/bin

usage() {
  cat <<'TEXT'
usage: scripts/argocd.sh VERB [ARGUMENTS]

  build                          build it if it is not there; prints the folder of the programs
  source                         prints the folder of its source
  up FOLDER KUBECONFIG NAMESPACE start Redis, repository server and application controller; waits until they serve.
                                 PORT=… is the first of four ports on loopback (16400), FLAGS=… is for the controller,
                                 REPO_FLAGS=… for the repository server
  down FOLDER                    end them; the folder stays, with logs/ and the notes of their processes (run/PART.pid)

The namespace has to be there. What Argo CD's own installation would make in it (definitions, argocd-cm, argocd-secret,
the project `default`) is made if it is missing.
TEXT
}

# The folder of its source, downloaded if it is not there.
argocd_source() {
  # Its organisation's modules are not in every checksum database; go.sum of the module holds for all the others.
  export GONOSUMDB='github.com/argoproj/*'
  go mod download -json "github.com/argoproj/argo-cd/v3@v$argocd_version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'
}

# Its own go.mod has to be the main one, because its replacements count only there: so it is built where it was unpacked.
# Its pages are not in the module, which is as well: nobody looks at them here.
# Whoever calls this asks whether it succeeded, so that every step has to say so itself.
from_argocd_module() {
  local module part
  module=$(argocd_source) &&
    (cd "$module" && go build -v -trimpath -ldflags "-s -w -X github.com/argoproj/argo-cd/v3/common.version=$argocd_version" -o "$out/argocd" ./cmd) &&
    for part in application-controller repo-server; do ln -s argocd "$out/argocd-$part" || return; done &&
    cp -r "$module/manifests/crds" "$out/crds" &&
    chmod -R u+w "$out/crds"
}

build_argocd() {
  packages_total=2230 build "argocd-$argocd_version" "$argocd_version" from_argocd_module
}

# Definitions that are there stay, whoever made them; these are the ones that upstream is tested with.
objects() { # namespace
  local file
  for file in "$home"/crds/{application,appproject,applicationset}-crd.yaml; do
    k create --filename "$file" >/dev/null 2>&1 || k get --filename "$file" >/dev/null
  done
  k wait --for=condition=Established --timeout=60s \
    crd/{applications,appprojects,applicationsets}.argoproj.io >/dev/null
  k apply --server-side --field-manager=argocd-installation --filename - >/dev/null <<YAML
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cm, namespace: $1, labels: {app.kubernetes.io/name: argocd-cm, app.kubernetes.io/part-of: argocd}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-rbac-cm, namespace: $1, labels: {app.kubernetes.io/name: argocd-rbac-cm, app.kubernetes.io/part-of: argocd}}
---
apiVersion: v1
kind: Secret
metadata: {name: argocd-secret, namespace: $1, labels: {app.kubernetes.io/name: argocd-secret, app.kubernetes.io/part-of: argocd}}
# Its API server would make one up; there is none here, and without it no cluster is known. It protects nothing.
stringData: {server.secretkey: only-for-comparisons}
---
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: default, namespace: $1}
spec:
  sourceRepos: ["*"]
  destinations: [{namespace: "*", server: "*"}]
  clusterResourceWhitelist: [{group: "*", kind: "*"}]
YAML
}

serves() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

up() {
  [ $# -eq 3 ] || fail "up needs FOLDER KUBECONFIG NAMESPACE"
  local port=${PORT:-16400} kubeconfig namespace=$3 part
  kubeconfig=$(realpath "$2")
  build_argocd
  local helm kustomize
  helm=$(tool helm) kustomize=$(tool kustomize)
  mkdir -p "$1"/{run,logs,redis,gpg,tls,ssh,plugins}
  dir=$(realpath "$1")
  # `k` asks the cluster of this folder.
  ln -sfn "$kubeconfig" "$dir/kubeconfig"
  objects "$namespace"
  local environment=(env "PATH=$(dirname "$helm"):$(dirname "$kustomize"):$PATH" "KUBECONFIG=$kubeconfig" "HOME=$dir"
    "TMPDIR=$dir/tmp" ARGOCD_FAKE_IN_CLUSTER=true ARGOCD_GPG_ENABLED=false "ARGOCD_GNUPGHOME=$dir/gpg" "ARGOCD_GPG_DATA_PATH=$dir/gpg"
    "ARGOCD_TLS_DATA_PATH=$dir/tls" "ARGOCD_SSH_DATA_PATH=$dir/ssh" "ARGOCD_PLUGINSOCKFILEPATH=$dir/plugins")
  mkdir -p "$dir/tmp"
  command -v redis-server >/dev/null || fail "redis-server is needed; scripts/setup.sh test installs it"
  start redis redis-server --bind 127.0.0.1 --port "$port" --save "" --appendonly no --dir "$dir/redis"
  wait_for redis 30 "an answer of Redis" serves "$port"
  # shellcheck disable=SC2086
  start repo-server "${environment[@]}" "$home/argocd-repo-server" --redis "127.0.0.1:$port" --address 127.0.0.1 --port $((port + 1)) \
    --metrics-address 127.0.0.1 --metrics-port $((port + 2)) ${REPO_FLAGS:-}
  wait_for repo-server 120 "an answer of the repository server" serves $((port + 1))
  # shellcheck disable=SC2086
  start application-controller "${environment[@]}" "$home/argocd-application-controller" --kubeconfig "$kubeconfig" --namespace "$namespace" \
    --redis "127.0.0.1:$port" --repo-server "127.0.0.1:$((port + 1))" --metrics-port $((port + 3)) ${FLAGS:-}
  wait_for application-controller 120 "an answer of the application controller" curl -fs "http://127.0.0.1:$((port + 3))/healthz"
}

down() {
  [ -d "${1:?down FOLDER}" ] || return 0
  dir=$(realpath "$1")
  local part
  for part in application-controller repo-server redis; do stop "$part" TERM 10; done
}

verb=${1:-help}
[ $# -eq 0 ] || shift
case $verb in
  build) build_argocd && echo "$home" ;;
  source) argocd_source ;;
  up) up "$@" ;;
  down) down "$@" ;;
  help | -h | --help) usage ;;
  *) usage >&2; fail "there is no verb $verb" ;;
esac
