"""Orders of a node with two partitions, against a real node."""

from __future__ import annotations

from pathlib import Path

import pytest

import weir
from conftest import HANG, OPERATOR_KEY, Node

CONFIG = "[[partition]]\nid = 3\n[[partition]]\nid = 7\n"
# Instruments and their partitions.
PARTITION_OF = {1: 3, 2: 7}


def open_market(node: Node) -> None:
    """An instrument in each partition, and a trader."""
    for instrument, partition in PARTITION_OF.items():
        symbol = f"WEIR{instrument}"
        words = ["instrument", "--id", instrument, "--symbol", symbol, "--partition", partition]
        node.admin(*words)
    node.admin("firm", "--id", 11, "--name", "FIRM11")
    node.define_session(11, "trader", 11)
    node.admin("account", "--id", 11, "--firm", 11, "--unlimited")
    for partition in PARTITION_OF.values():
        words = ["--account", 11, "--cash", 1, "--transfer-id", partition]
        node.admin("deposit", *words, "--partition", partition)


def test_an_order_names_its_partition_and_a_wrong_one_is_answered_too(tmp_path: Path) -> None:
    node = Node(tmp_path, {1: OPERATOR_KEY}, config=CONFIG)
    try:
        open_market(node)
        with node.client(11) as client:

            def enter(name: str, instrument: int, **partition: int) -> int:
                return client.new_order(
                    name,
                    instrument=instrument,
                    account=11,
                    side=weir.Side.Buy,
                    qty=5,
                    price=100,
                    **partition,
                )

            def take() -> tuple[object, object]:
                event = client.event(HANG)
                assert event is not None and event["type"] == "ExecutionReport", event
                return event["answered"], event["partition_id"]

            sent = enter("a", 1, partition=3)
            assert take() == (sent, 3)
            with pytest.raises(ValueError, match=r"several \(3, 7\)"):
                enter("b", 2)
            for name, partition in (("c", 7), ("d", 3)):
                sent = enter(name, 2, partition=partition)
                assert take() == (sent, 7)
    finally:
        node.kill()
