"""Puts the figures of the engine alone and of the rounds beside the peer into one JSON line.

`compare.py DIR`: DIR holds `alone`, `left_out`, and a line per round in `ours`, `peer_risk_on`,
`peer_risk_off`, and the same of the recorded day in files whose names begin with `day_`; one line
in `peer_pipeline`. A comparison of engines that did different things is none: it fails when trades,
lots or live orders of the two sides differ by more than one in a thousand.
"""

import json
import math
import pathlib
import statistics
import sys

VERSION = "0.5.3"
DIFFERENCE_MAX = 0.001


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def interval(values):
    """The order statistics around the median that hold the true one at 95 %, or all there is."""
    ordered, count = sorted(values), len(values)
    # The chance that the true median lies below the (k+1)-th smallest value.
    below, k = 0.0, 0
    while k < count // 2:
        below += math.comb(count, k) / 2**count
        if below > 0.025:
            break
        k += 1
    k = max(k - 1, 0)
    outside = 2 * sum(math.comb(count, i) for i in range(k + 1)) / 2**count
    return {
        "median": round(statistics.median(values), 3),
        "interval": [round(ordered[k], 3), round(ordered[-1 - k], 3)],
        "confidence": round(1 - outside, 3),
    }


def check_same_work(ours, theirs, name):
    for mine, other in zip(ours, theirs):
        for what in ("trades", "traded_lots", "live_orders"):
            if other[what] < 0:
                continue
            if abs(mine[what] - other[what]) > DIFFERENCE_MAX * mine[what]:
                sys.exit(f"{name} has {other[what]} {what}, ours {mine[what]}: not the same work")


def side(runs):
    return {
        "operations_per_second": statistics.median(run["operations_per_second"] for run in runs),
        "operations_per_wall_second": statistics.median(
            run["operations_per_wall_second"] for run in runs
        ),
    }


def ratio(ours, theirs):
    return interval(
        [
            mine["operations_per_second"] / other["operations_per_second"]
            for mine, other in zip(ours, theirs)
        ]
    )


def sides(work, flow):
    """The rounds of one flow; `flow` is what its files' names begin with."""
    ours = lines(work / f"{flow}ours")
    result = {
        "rounds": len(ours),
        "operations": ours[0]["operations"],
        "ours": side(ours),
        "ours_bare": side(lines(work / f"{flow}ours_bare")),
        "trades": ours[0]["trades"],
        "traded_lots": ours[0]["traded_lots"],
        "live_orders": ours[0]["live_orders"],
    }
    bare = lines(work / f"{flow}ours_bare")
    check_same_work(ours, bare, f"{flow}ours_bare")
    for name in ("risk_on", "risk_off"):
        theirs = lines(work / f"{flow}peer_{name}")
        check_same_work(ours, theirs, f"{flow}peer_{name}")
        result[name] = side(theirs)
        result[f"ratio_to_{name}"] = ratio(ours, theirs)
        result[f"ratio_bare_to_{name}"] = ratio(bare, theirs)
        result["java"] = theirs[0]["java"]
        result[name]["refused"] = theirs[0]["refused"]
    return ours, result


def day(work):
    ours, result = sides(work, "day_")
    more = {name: ours[0][name] for name in ("passes", "warm_up_passes", "left_out")}
    how = (
        "the recorded day, in each round played so many times, each on fresh engines whose "
        "memory is there, after passes that only warm up; accounts get money and lots, so "
        "that both sides check them"
    )
    return {"how": how, **more, **result}


def compare(work):
    ours, mix = sides(work, "")
    result = {
        "name": "exchange-core",
        "version": VERSION,
        "how": "its risk and matching engines called on one thread, books of its direct kind; "
        "operations per second of that thread's processor time",
        **mix,
    }
    pipeline = lines(work / "peer_pipeline")
    check_same_work(ours, pipeline, "the pipeline")
    result["pipeline_risk_on"] = side(pipeline)
    by_thread = "whole_run_cpu_ms_by_thread"
    result["pipeline_risk_on"][by_thread] = pipeline[0][by_thread]
    result["day"] = day(work)
    return result


def main():
    work = pathlib.Path(sys.argv[1])
    result = json.loads((work / "alone").read_text().splitlines()[-1])
    left_out = (work / "left_out").read_text().strip()
    result["peer"] = None if left_out else compare(work)
    result["peer_left_out"] = left_out or None
    print(json.dumps(result))


if __name__ == "__main__":
    main()
