#!/bin/sh
# recovery.sh [ORDERS [TAIL [ACCOUNTS]]]: a partition's start from a snapshot with ORDERS live
# orders and a command log with TAIL commands after it, both on the disk of the temporary directory;
# what the state takes in memory; and a position in each of 100 instruments for ACCOUNTS accounts.
#
# The files are put out of the system's cache before each start, as they are after a power loss.
set -eu
cd "$(dirname "$0")/.."
orders=${1:-10000000}
tail=${2:-1000000}
accounts=${3:-1000000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bench="cargo run --release -q -p weir-bench --bin recovery --"

forget() {
    sync -f "$work"
    find "$work" -type f -size +0 -exec python3 -c '
import os, sys
for name in sys.argv[1:]:
    file = os.open(name, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)' {} +
}

# part NAME ARGS...: one process; its line goes to a file of its own.
part() {
    name=$1
    shift
    $bench "$@" >"$work/$name.json"
    echo "$name: $(cat "$work/$name.json")"
}

part prepared prepare "$work" "$orders" "$tail"
forget
part base restore "$work" "$orders" "$tail" base
forget
part full restore "$work" "$orders" "$tail" full
forget
part start rebuild "$work" "$orders" "$tail"
rm -r "$work/commands" "$work/events" "$work/base" "$work/snapshots"
part positions positions "$accounts" "$tail"
python3 - "$work" <<'PYTHON'
import json, pathlib, sys

work = pathlib.Path(sys.argv[1])
part = {path.stem: json.loads(path.read_text()) for path in work.glob("*.json")}
orders = part["full"]["live_orders"]
grown = part["full"]["resident_bytes"] - part["base"]["resident_bytes"]
of_parts = sum(part["full"][name]["on_core"] for name in ("read_and_verify", "restore"))
print(json.dumps({
    "bench": "recovery",
    "live_orders": orders,
    "tail": part["prepared"]["tail"],
    "snapshot_bytes": part["prepared"]["snapshot_bytes"],
    "seconds": part["start"]["whole"]["seconds"],
    "seconds_on_core": part["start"]["whole"]["on_core"],
    "tail_seconds_on_core": round(part["start"]["whole"]["on_core"] - of_parts, 3),
    "bytes_per_live_order": round(grown / orders, 1),
    "bytes_per_open_position": part["positions"]["bytes_per_open_position"],
    **{name: part[name] for name in ("base", "full", "start", "positions")},
}))
PYTHON
