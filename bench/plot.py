"""Draws a benchmark's newest line: `./x plot NAME` writes `bench/results/NAME.svg`.

Only `delivery-e2e` has a picture: what it costs and brings to let a page wait for more rows. Each
panel has one line for each number of rows that a page waits for, over the longest that it waits.
"""

import json
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
# The same bytes from the same line: no time of making, no random names.
matplotlib.rcParams["svg.hashsalt"] = "weir"
# Text as text: smaller, and it can be searched.
matplotlib.rcParams["svg.fonttype"] = "none"

import matplotlib.pyplot as plt  # noqa: E402 -- the backend is chosen before

RESULTS = pathlib.Path(__file__).parent / "results"
# Title, unit and scale of a panel, and how its value is found in a run of the sweep.
PANELS = [
    ("delay, mean", "ms", "log", lambda run: run["mean_ns"] / 1e6),
    ("delay, p99", "ms", "log", lambda run: run["p99_ns"] / 1e6),
    ("rows of a page, mean", "rows", "linear", lambda run: run["page_rows_mean"]),
    ("packets", "1,000 a second", "linear", lambda run: run["segments_per_s"] / 1e3),
    ("delivery thread", "share of a core", "linear", lambda run: run["threads"]["delivery"]),
    ("core thread (sockets)", "share of a core", "linear", lambda run: run["threads"]["core"]),
]


def newest(name):
    """The newest line of a clean commit, as in the tables of results."""
    path = RESULTS / f"{name}.jsonl"
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    clean = [line for line in lines if line["run"]["commit_is_clean"] is True]
    if not clean:
        sys.exit(f"{path} holds no line of a clean commit: ./x bench {name} makes one")
    return max(clean, key=lambda line: line["run"]["time_utc"])


def draw_sweep(result, path):
    """Draws the sweep of `rows_min` and `wait_max_us`."""
    figure, axes = plt.subplots(2, 3, figsize=(12, 6.5), layout="constrained")
    rows = sorted({run["rows_min"] for run in result["sweep"]})
    waits = sorted({run["wait_max_us"] for run in result["sweep"]})
    runs = {(run["rows_min"], run["wait_max_us"]): run for run in result["sweep"]}
    for axis, (title, unit, scale, value) in zip(axes.flat, PANELS, strict=True):
        for rows_min in rows:
            points = [value(runs[rows_min, wait]) for wait in waits]
            axis.plot(waits, points, marker="o", label=f"{rows_min}")
        axis.set_title(title)
        axis.set_xlabel("longest wait of a page, µs")
        axis.set_ylabel(unit)
        axis.set_xscale("log", base=2)
        axis.set_xticks(waits, [str(wait) for wait in waits])
        axis.set_yscale(scale)
        if scale == "linear":
            axis.set_ylim(bottom=0)
    axes.flat[0].legend(title="rows waited for")
    run = result["run"]
    figure.suptitle(
        f"{result['rate']:,} changes/s to 100 clients, {result['cores']} cores, "
        f"commit {run['commit'][:8]}, {run['time_utc'][:10]}"
    )
    figure.savefig(path, metadata={"Date": None})


def main():
    """Draws what is named."""
    if sys.argv[1:] != ["delivery-e2e"]:
        sys.exit("usage: plot.py delivery-e2e")
    path = RESULTS / "delivery-e2e.svg"
    draw_sweep(newest("delivery-e2e"), path)
    print(f"drawn: {path}")


if __name__ == "__main__":
    main()
