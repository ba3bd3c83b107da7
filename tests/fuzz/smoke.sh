#!/bin/sh
# Builds the fuzz targets with clang and runs each for a few thousand inputs from its seeds: tests/fuzz/smoke.sh [RUNS]
# Longer: build/fuzz/tests/fuzz/gguf_fuzz -max_total_time=600 FOLDER tests/fuzz/gguf_fuzz
set -eu
cd "$(dirname "$0")/../.."
runs=${1:-5000}
cmake --preset fuzz >/dev/null
cmake --build build/fuzz --target gguf_fuzz yaml_fuzz
found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
for name in gguf yaml; do
  mkdir "$found/$name"
  # The seed is fixed: a smoke run that fails fails again. What broke it stays in build/fuzz.
  if ! build/fuzz/tests/fuzz/${name}_fuzz -seed=1 -runs="$runs" -max_len=16384 -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=64 \
      -artifact_prefix=build/fuzz/ "$found/$name" tests/fuzz/${name}_fuzz >"$found/$name.log" 2>&1; then
    cat "$found/$name.log"
    exit 1
  fi
  echo "${name}_fuzz: $(grep -c NEW "$found/$name.log") inputs found new code in $runs runs"
done
