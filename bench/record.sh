#!/bin/sh
# record.sh NAME COMMAND...: runs one benchmark and keeps its figures.
#
# The command's last line must be one JSON object. It gets the commit, machine and time of the run
# under "run" and is appended to bench/results/NAME.jsonl. A benchmark that fails, or that ends in
# anything else, leaves no figure behind and fails here too.
set -eu
name=$1
shift
cd "$(dirname "$0")/.."
output=$(mktemp)
trap 'rm -f "$output" "$output.failed"' EXIT

{ "$@" || echo $? >"$output.failed"; } | tee "$output"
if [ -e "$output.failed" ]; then
    echo "benchmark $name failed (exit $(cat "$output.failed")): nothing recorded" >&2
    exit 1
fi
mkdir -p bench/results
tail -n 1 "$output" | python3 bench/record.py "$name" "$*" >>"bench/results/$name.jsonl"
echo "recorded in bench/results/$name.jsonl"
