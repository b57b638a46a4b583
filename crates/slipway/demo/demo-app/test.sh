#!/bin/sh
# What has to hold before the page is shipped.
set -eu
page=www/index.html
echo "Testing $page"
for wanted in '<title>' '<h1>'; do
  if grep -q "$wanted" "$page"; then
    echo "  ok: $page has $wanted"
  else
    echo "  FAILED: $page has no $wanted"
    exit 1
  fi
done
echo "All good: $(wc -c <"$page") bytes"
