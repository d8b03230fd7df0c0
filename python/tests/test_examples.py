"""The examples, run as a user would run them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import weir
from conftest import HANG, SOURCE, Node, trade

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, *words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-u", EXAMPLES / name, *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def interrupt(example: subprocess.Popen[str]) -> None:
    """Ends the example as Ctrl-C does; it must end without errors."""
    example.send_signal(signal.SIGINT)
    _, complaints = example.communicate(timeout=HANG)
    assert (complaints, example.returncode) == ("", 0)


def test_a_follower_goes_on_from_the_token_in_its_file(node: Node) -> None:
    trade(node, 3)
    kept = node.home / "token"
    example = run("follow.py", node.address, 2, node.keys[2], kept)
    assert example.stdout is not None
    said = ""
    while "3 live" not in said:
        said = example.stdout.readline()
    while not weir.Token.load(kept):
        os.sched_yield()
    interrupt(example)
    with node.client(2) as client:
        token = weir.Token.load(kept)
        orders = client.orders(live=True, token=token, until_online=True, timeout=HANG)
        assert sum(len(batch) for batch in orders) == 0


def test_a_core_feeds_its_orders(node: Node) -> None:
    example = run("feed.py", node.ingest, 30, node.keys[30], SOURCE, 1)
    assert example.stdout is not None
    assert "survive at the level Os" in example.stdout.readline()
    with node.client(2) as client:
        table = weir.OrderTable()
        for batch in client.orders(source=SOURCE, timeout=HANG, resync="return"):
            table.apply(batch)
            if len(table) == 100 and any(row["seq"] > 10 for row in table.to_numpy()):
                break
    interrupt(example)


def test_all_orders_are_a_table_of_arrow(node: Node) -> None:
    trade(node, 3)
    example = run("to_arrow.py", node.address, 2, node.keys[2])
    said, complaints = example.communicate(timeout=HANG)
    assert (complaints, example.returncode) == ("", 0)
    assert "New" in said and "15" in said
