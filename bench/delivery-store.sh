#!/bin/sh
# delivery-store.sh [--rounds N] [--updates N] [--orders N,N --attributes LEN,LEN]: the order store
# beside a plain store of one map and four trees and beside Tarantool, in turn in one run.
#
# 200,000 live orders of 600 bytes; then, where there is memory for all three, 10 million with fewer
# attributes. Tarantool is installed by apt when it is missing; where that cannot be, it is left out
# and the line says so.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

command -v tarantool >/dev/null 2>&1 || {
    echo "installing tarantool: the peer of this benchmark" >&2
    as_root apt-get update -qq >&2 || true
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends tarantool >&2 || true
}
orders="--orders 200000 --attributes 439"
memory_kb=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
if [ "$memory_kb" -ge 18000000 ]; then
    # With 100 bytes of attributes the three together take some 16 GB.
    orders="--orders 200000,10000000 --attributes 439,100"
else
    echo "10 million orders are left out: $memory_kb kB of memory are free, 18 GB are needed" >&2
fi
if command -v tarantool >/dev/null 2>&1; then
    set -- --tarantool bench/peers/tarantool/store.lua "$work" "$@"
else
    echo "the peer Tarantool is left out: it cannot be installed" >&2
fi
# shellcheck disable=SC2086 # each option is words
cargo run --release -q -p weir-bench -- delivery-store $orders "$@"
