#!/bin/sh
# abi.sh [ROUNDS]: the engine under a neutral benchmark of matching cores.
#
# Needs a built checkout of that benchmark, of which nothing is kept here, and of the engines that
# its conformance gate takes its answers from. The engine must pass the gate and all five scenarios
# with the benchmark's own harness, or nothing is measured. Then our driver times the thread that
# calls the engine, by that thread's processor time, engines in turn: on few cores the harness's
# wall time is mostly that of its second thread.
#
#   WEIR_ABI_HARNESS  the checkout
#   WEIR_ABI_PEERS    libraries to time beside ours, separated by spaces; may be empty
set -eu
cd "$(dirname "$0")/.."
rounds=${1:-5}
scenarios="static normal swing-25 swing-40 flash-crash"
count=1000000
seed=23

die() {
    echo "abi.sh: $*" >&2
    exit 1
}

harness=${WEIR_ABI_HARNESS:-}
[ -n "$harness" ] || die "WEIR_ABI_HARNESS is not set. Clone the benchmark
  https://github.com/flash1-dev/matching-engine-benchmark
build it as its README says (make, and the adapters liquibook, quantcup, cpp_orderbook, llc993 and
hroptatyr_clob, which its gate compares with), and set WEIR_ABI_HARNESS to its folder."
[ -x "$harness/harness" ] && [ -x "$harness/generator" ] ||
    die "$harness has no built harness and generator: run make there"
harness=$(cd "$harness" && pwd)

cargo build --profile abi -q -p weir-abi
target=$(cargo metadata --format-version 1 --no-deps |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])')
ours=$target/abi/libweir_abi.so
driver=$target/abi/abi_drive
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

(cd "$harness" && python3 scripts/conformance_check.py "$ours") >"$work/gate" ||
    { cat "$work/gate" >&2; die "the engine does not pass the conformance gate"; }
grep '^VERDICT' "$work/gate"

# The harness gives the engine that it audits by 120 s to play a scenario. That engine walks through
# a tree of a hundred thousand orders for each that is cancelled, and on slower memory takes longer;
# large pages bring it well below. Speeds are not taken here.
large_pages=glibc.malloc.hugetlb=1
set --
for scenario in $scenarios; do
    for mode in perf audit; do
        (cd "$harness" && GLIBC_TUNABLES=$large_pages ./harness --engine "$ours" \
            --scenario "$scenario" --mode "$mode" --seed "$seed" --count "$count" \
            --matcher-core 0 --drainer-core 1) >"$work/run" 2>&1 ||
            { cat "$work/run" >&2; die "$scenario, $mode: the harness failed"; }
        grep -q '^Verdict: VALID' "$work/run" ||
            { cat "$work/run" >&2; die "$scenario, $mode: not valid"; }
        echo "$scenario, $mode: VALID"
    done
    set -- "$@" "$harness/orders_${scenario}_s${seed}_n${count}.bin"
done

# shellcheck disable=SC2086 # a list of words
"$driver" "$rounds" "$@" -- "$ours" ${WEIR_ABI_PEERS:-} >"$work/rates"
commit=$(git -C "$harness" rev-parse HEAD 2>/dev/null || echo unknown)
python3 - "$work/gate" "$work/rates" "$commit" <<'END'
import json, os, re, subprocess, sys

gate, rates_path, commit = sys.argv[1:]
with open(gate, encoding="utf-8") as lines:
    cases = int(re.search(r"CONFORMANT \(report stream on (\d+) cases", lines.read()).group(1))
with open(rates_path, encoding="utf-8") as lines:
    rates = json.loads(lines.read())
rounds = rates.pop("rounds")
ours = rates.pop("libweir_abi")
ratios = {name: round(ours["worst_median"] / peer["worst_median"], 3)
          for name, peer in rates.items()}
rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True).stdout.strip()
print(json.dumps({
    "bench": "engine-abi", "unit": "messages per second of the calling thread's processor time",
    "conformance_cases": cases, "scenarios_valid": 5, "rounds": rounds, "ours": ours,
    "peers": rates, "worst_to_peers_worst": ratios, "load_average": os.getloadavg(),
    "versions": {"harness": commit, "rustc": rustc}}))
END
