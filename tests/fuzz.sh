#!/usr/bin/env bash
# Runs every fuzz target of the workspace for so many seconds each (the first argument). A finding stops it; its input
# is under fuzz/artifacts/ and belongs into the regression corpus that `make test` runs.
set -euo pipefail
# As in our programs: a reader that hangs up ends no target. (libFuzzer begins before Rust could say so.)
trap '' PIPE
cd "$(dirname "$0")/.."

seconds=$1
cargo_fuzz=$(.ci/setup path cargo-fuzz)
export RUSTUP_TOOLCHAIN=nightly
# One for all folders: what they have in common is built once.
built=${CARGO_TARGET_DIR:-target}/fuzz
mapfile -t folders < <(git ls-files '*fuzz/Cargo.toml' | xargs -r -n1 dirname)
if ((${#folders[@]} == 0)); then
    echo "no fuzz targets in this tree" >&2
    exit 1
fi
for folder in "${folders[@]}"; do
    for target in $("$cargo_fuzz" fuzz list --fuzz-dir "$folder"); do
        echo "fuzz: $folder $target, $seconds s"
        seeds=()
        if [[ -d $folder/seeds/$target ]]; then seeds=("$folder/seeds/$target"); fi
        mkdir -p "$folder/corpus/$target"
        # Decoders' threads end by themselves, some just when leaks would be counted.
        "$cargo_fuzz" fuzz run --fuzz-dir "$folder" --target-dir "$built" "$target" "$folder/corpus/$target" "${seeds[@]}" -- \
            -max_total_time="$seconds" -timeout=30 -detect_leaks=0 -rss_limit_mb=1024 -print_final_stats=1
    done
done
