#!/bin/sh
# delivery-net.sh [--rounds N] [--seconds N]: orders per second of the server's processor over the
# network, in batches of 50, beside Tarantool's net.box and Redis Streams, in turn in one run.
#
# The peers are installed by apt when they are missing; where that cannot be, they are left out and
# the line says so.
set -eu
cd "$(dirname "$0")/.."

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

for peer in tarantool redis-server; do
    command -v "$peer" >/dev/null 2>&1 || {
        echo "installing $peer: a peer of this benchmark" >&2
        as_root apt-get update -qq >&2 || true
        # Nothing is to run of its own: the benchmark starts what it needs.
        as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
            apt-get install -y -qq --no-install-recommends "$peer" >&2 || true
    }
done
peers=
if command -v tarantool >/dev/null 2>&1; then
    peers="--tarantool bench/peers/tarantool/net.lua"
else
    echo "the peer Tarantool is left out: it cannot be installed" >&2
fi
if command -v redis-server >/dev/null 2>&1; then
    peers="$peers --redis redis-server"
else
    echo "the peer Redis is left out: it cannot be installed" >&2
fi
# shellcheck disable=SC2086 # each option is words
cargo run --release -q -p weir-bench -- delivery-net $peers "$@"
