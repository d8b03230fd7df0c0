#!/bin/sh
# engine.sh [OPERATIONS]: the engine alone, on a synthetic mix and on the recorded day.
#
# The recorded day is first played through a whole node, so that the engine is timed on exactly the
# commands that its log holds.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
weir="cargo run --release -q -p weir --"

$weir demo --once --json --durability memory --speed 2000 --dir "$work/node" \
    --listen 127.0.0.1:0 --http 127.0.0.1:0 >/dev/null
$weir log export --dir "$work/node" --out "$work/day.commands" >&2
cargo run --release -q -p weir-engine --example bench_engine -- "${1:-2000000}" "$work/day.commands"
