#!/usr/bin/env bash
# The published Terraform provider's own acceptance tests, and OpenTofu to run them with: clients that nobody here wrote.
# Built once from their Go modules into the cache.
# usage: scripts/terraform.sh build     prints the folder with `tofu`, `acceptance` and what the tests read
set -Eeuo pipefail
trap 'echo "error: $BASH_COMMAND failed at ${BASH_SOURCE##*/}:$LINENO" >&2' ERR
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
for part in lib build; do
  # shellcheck source=/dev/null
  . "$here/kube/$part.sh"
done
say() { echo "terraform: $*" >&2; }
provider_version=0.12.0
tofu_version=1.10.6

unpacked() { go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'; }

# Each go.mod has to be the main one, because its replacements count only there.
from_their_modules() {
  local module
  # Not every organisation's modules are in every checksum database; go.sum of the modules holds for all the others.
  export GONOSUMDB='github.com/codefresh-io/*,github.com/opentofu/*'
  module=$(unpacked "github.com/codefresh-io/terraform-provider-codefresh@v$provider_version") &&
    (cd "$module" && go test -c -v -trimpath -o "$out/acceptance" ./codefresh) &&
    mkdir "$out/codefresh" && cp -r "$module/test_data" "$out/" && chmod -R u+w "$out/test_data" &&
    module=$(unpacked "github.com/opentofu/opentofu@v$tofu_version") &&
    (cd "$module" && go build -v -trimpath -ldflags "-s -w" -o "$out/tofu" ./cmd/tofu)
}

[ "${1:-}" = build ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
name=terraform-codefresh-$provider_version
packages_total=1800 build "$name" "$provider_version $tofu_version" from_their_modules
echo "$cache/$name/bin"
