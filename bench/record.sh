#!/bin/sh
# record.sh NAME COMMAND...: runs one benchmark and keeps its figures.
#
# The command's last line must be one JSON object. It gets its goals by bench/goals.toml under
# "goals", the commit, machine and time of the run under "run", and is appended to
# bench/results/NAME.jsonl. A benchmark that fails, ends in anything else or lacks a figure of
# bench/goals.toml leaves no line behind and fails here too.
set -eu
name=$1
shift
cd "$(dirname "$0")/.."
output=$(mktemp)
trap 'rm -f "$output" "$output.failed" "$output.line"' EXIT

# Before the run: a tool that does not build must not cost its figures.
cargo build -q -p xtask

{ "$@" || echo $? >"$output.failed"; } | tee "$output"
if [ -e "$output.failed" ]; then
    echo "benchmark $name failed (exit $(cat "$output.failed")): nothing recorded" >&2
    exit 1
fi
mkdir -p bench/results
tail -n 1 "$output" | python3 bench/record.py "$name" "$*" >"$output.line"
cat "$output.line" >>"bench/results/$name.jsonl"
echo "recorded in bench/results/$name.jsonl; the tables: cargo run -p xtask -- results"
