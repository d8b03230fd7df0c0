#!/bin/sh
# engine.sh [--pairs N] [OPERATIONS]: the engine alone, on a synthetic mix and on the recorded day;
# beside it the peer exchange-core on both, in N interleaved rounds.
#
# The recorded day is first played through a whole node, so that the engine is timed on exactly the
# commands that its log holds. Without a JDK and Maven, or when Maven cannot fetch the peer, the
# peer is left out and the line says why.
set -eu
cd "$(dirname "$0")/.."
pairs=5
if [ "${1:-}" = --pairs ]; then
    pairs=$2
    shift 2
fi
operations=$(echo "${1:-2000000}" | tr -d _)
warm_up=1000000
# The day has some 100,000 commands: it is played over and over, as many as there are of the mix.
day_warm_up=$((warm_up / 100000))
day_passes=$(((operations + 99999) / 100000))
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
weir="cargo run --release -q -p weir --"
ours="cargo run --release -q -p weir-bench -- engine-peer"
peer=bench/peers/exchange-core

# Why there is no peer to be had; nothing when it is built.
build_peer() {
    for tool in javac java mvn; do
        command -v $tool >/dev/null 2>&1 || {
            echo "$tool is missing"
            return
        }
    done
    $peer/run.sh "$work/peer" >"$work/build" 2>&1 || {
        tail -n 20 "$work/build" >&2
        echo "Maven could not build it"
    }
}

# side FILE COMMAND...: one run of one side; its last line goes to FILE.
side() {
    into=$1
    shift
    "$@" >"$work/run"
    tail -n 1 "$work/run" >>"$into"
    echo "$(basename "$into"): $(tail -n 1 "$work/run")"
}

# One round of the mix and one of the day: ours, ours without what the peer does not do either
# (digest, remembered answers, encoded events), then the peer with its checks and without.
round() {
    side "$work/ours" $ours play $warm_up "$operations"
    side "$work/ours_bare" $ours play $warm_up "$operations" bare
    side "$work/peer_risk_on" $peer/run.sh "$work/peer" "$work/flow" direct risk
    side "$work/peer_risk_off" $peer/run.sh "$work/peer" "$work/flow" direct no-risk
    side "$work/day_ours" $ours play-day "$work/day.commands" $day_warm_up $day_passes
    side "$work/day_ours_bare" $ours play-day "$work/day.commands" $day_warm_up $day_passes bare
    day_of_peer risk_on risk
    day_of_peer risk_off no-risk
}

day_of_peer() {
    side "$work/day_peer_$1" $peer/run.sh "$work/peer" "$work/day.flow" direct "$2" \
        $day_warm_up $day_passes
}

play_peer() {
    $ours export $warm_up "$operations" "$work/flow" >/dev/null
    $ours export-day "$work/day.commands" "$work/day.flow" >/dev/null
    round=0
    while [ $round -lt "$pairs" ]; do
        round
        round=$((round + 1))
    done
    side "$work/peer_pipeline" $peer/run.sh "$work/peer" "$work/flow" pipeline risk
}

$weir demo --once --calls false --json --durability memory --speed 2000 --dir "$work/node" \
    --listen 127.0.0.1:0 --http 127.0.0.1:0 >/dev/null
$weir log export --dir "$work/node" --out "$work/day.commands" >&2
cargo run --release -q -p weir-bench -- engine-alone "$operations" "$work/day.commands" \
    >"$work/alone"
build_peer >"$work/left_out"
if [ -s "$work/left_out" ]; then
    echo "the peer exchange-core is left out: $(cat "$work/left_out")"
else
    play_peer
fi
python3 $peer/compare.py "$work"
