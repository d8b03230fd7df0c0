#!/bin/sh
# run.sh list | TARGET [SECONDS]: builds one fuzz target with libFuzzer and runs it.
#
# Needs a stable Rust and a C++ compiler (for libFuzzer itself); cargo-fuzz works on the same folder
# but is not needed. A finding ends in exit code 1 and leaves its input in fuzz/artifacts/TARGET/;
# the same script replays it: run.sh TARGET FILE.
set -eu
# The path of a file to replay is relative to the caller's folder.
argument=${2:-300}
if [ -f "$argument" ]; then
    argument=$(cd "$(dirname "$argument")" && pwd)/$(basename "$argument")
fi
CDPATH='' cd "$(dirname "$0")"

targets() { sed -n "/^\[\[bin\]\]/,/^path/s/^name = \"\(.*\)\"/\1/p" Cargo.toml; }

target=${1:-list}
if [ "$target" = list ]; then
    targets
    exit 0
fi
targets | grep -qx "$target" || {
    echo "no fuzz target \`$target\`; there are:" >&2
    targets >&2
    exit 2
}

# The node is large, and the gateway too: only their own targets are built with them.
features=
case $target in
node_*) features="--features node" ;;
gateway_*) features="--features gateway" ;;
esac

cache=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
# Coverage by LLVM's own pass, which stable compilers have; an explicit --target keeps these flags
# away from build scripts.
# shellcheck disable=SC2086 # no features, no argument
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares" \
    CARGO_TARGET_DIR=$cache cargo build -q --release --target "$host" --bin "$target" $features
binary=$cache/$host/release/$target

mkdir -p "corpus/$target" "artifacts/$target"
seeds=
[ ! -d "seeds/$target" ] || seeds=seeds/$target
if [ -f "$argument" ]; then
    exec "$binary" "$argument"
fi
case $argument in *[!0-9]*)
    echo "neither a number of seconds nor a file: $argument" >&2
    exit 2
    ;;
esac
echo "fuzzing $target for $argument s; corpus: fuzz/corpus/$target"
# shellcheck disable=SC2086 # no seeds, no argument
"$binary" -max_total_time="$argument" -max_len="${FUZZ_LEN_MAX:-4096}" -timeout=20 \
    -rss_limit_mb=2048 -print_final_stats=1 -verbosity="${FUZZ_VERBOSITY:-1}" \
    -artifact_prefix="artifacts/$target/" "corpus/$target" $seeds
