#!/bin/sh
# Builds the fuzz targets with clang and runs each for a few thousand inputs from its seeds: tests/fuzz/smoke.sh [RUNS]
# Longer: build/fuzz/tests/fuzz/gguf_fuzz -max_total_time=600 FOLDER tests/fuzz/corpus/gguf
set -eu
cd "$(dirname "$0")/../.."
runs=${1:-5000}
cmake --preset fuzz >/dev/null
cmake --build build/fuzz --target gguf_fuzz yaml_fuzz
for name in gguf yaml; do
  found=$(mktemp -d)
  # The seed is fixed: a smoke run that fails fails again.
  build/fuzz/tests/fuzz/${name}_fuzz -seed=1 -runs="$runs" -max_len=8192 -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=64 \
    -print_final_stats=1 "$found" tests/fuzz/corpus/$name 2>&1 | tail -8
  rm -rf "$found"
done
