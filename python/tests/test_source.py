"""An outside core's orders, fed from Python."""

from __future__ import annotations

import numpy as np
import pytest

import weir
from conftest import HANG, SOURCE, Node


def known(node: Node) -> dict[int, int]:
    """The price of each record, as seen by a reader of the source."""
    table = weir.OrderTable()
    with node.client(2) as client:
        for batch in client.orders(source=SOURCE, until_online=True, timeout=HANG):
            table.apply(batch)
    return {int(row["rec"]): int(row["price"]) for row in table.to_numpy()}


def resend(source: weir.Source, orders: list[dict[str, int]]) -> None:
    """Sends a full resend in one batch."""
    source.send(orders, resend_begin=True, resend_end=True)


def test_dictionaries_and_arrays_come_to_readers_and_are_acknowledged(node: Node) -> None:
    with node.source() as source:
        opened = source.open()
        assert (opened.head, opened.next, opened.level) == ((0, 0), 1, "Os")
        resend(source, [{"rec": 1, "seq": 1, "price": 10}])
        rows = np.zeros(100, dtype=[("rec", "u8"), ("seq", "u8"), ("price", "i8")])
        rows["rec"] = np.arange(2, 102)
        rows["seq"] = np.arange(3, 103)
        rows["price"] = rows["rec"] * 10
        assert source.send(rows) == 2
        assert source.flush(HANG) == 2 == source.acknowledged
        assert source.unacknowledged == 0
    assert known(node) == {rec: rec * 10 for rec in range(1, 102)}


def test_whole_rows_of_a_reader_can_be_fed_again(node: Node) -> None:
    rows = weir.rows_of([{"rec": 1, "seq": 1, "price": 3}], source=SOURCE)
    assert rows.dtype == weir.ORDER_DTYPE
    with node.source() as source:
        source.send(rows, resend_begin=True, resend_end=True)
    assert known(node) == {1: 3}


def test_what_was_not_acknowledged_is_sent_again_to_a_node_that_was_killed(node: Node) -> None:
    source = node.source()
    resend(source, [])
    source.flush(HANG)
    # A restart would choose another port for the ingest listener: fix the current one.
    config = node.home / "weir.toml"
    config.write_text(config.read_text().replace(
        '[ingest]\nlisten = "127.0.0.1:0"', f'[ingest]\nlisten = "{node.ingest}"'
    ))
    node.kill()
    for rec in range(1, 21):
        source.send([{"rec": rec, "seq": 1 + rec, "price": rec}])
    source.poll(0.0)
    assert source.unacknowledged == 20
    node.start()
    assert source.flush(HANG) == 21
    assert isinstance(source.take_failure(), weir.ConnectionLost)
    assert known(node) == {rec: rec for rec in range(1, 21)}


def test_a_new_epoch_resends_all_and_what_is_missing_is_gone(node: Node) -> None:
    with node.source() as source:
        resend(source, [{"rec": rec, "seq": 1, "price": rec} for rec in (1, 2, 3)])
    with node.client(2) as client:
        orders = client.orders(source=SOURCE, until_online=True, timeout=HANG)
        seen = weir.OrderTable()
        for batch in orders:
            seen.apply(batch)
        assert len(seen) == 3
        with node.source(epoch=2, valid_to=(1, 2, 0)) as source:
            head = source.open().head
            resend(source, [{"rec": rec, "seq": head[0] + 1, "price": 7} for rec in (1, 3)])
        later = client.orders(
            source=SOURCE, token=orders.token, until_online=True, timeout=HANG, resync="return"
        )
        for batch in later:
            seen.apply(batch)
        assert {int(row["rec"]): int(row["price"]) for row in seen.to_numpy()} == {1: 7, 3: 7}


def test_a_refusal_names_the_row_and_the_reason(node: Node) -> None:
    source = node.source()
    resend(source, [{"rec": 1, "seq": 5}])
    source.flush(HANG)
    source.send([{"rec": 2, "seq": 7}, {"rec": 3, "seq": 4}])
    with pytest.raises(weir.SourceRefused) as refused:
        source.flush(HANG)
    assert refused.value.reason == "PlaceWentBack"
    assert refused.value.details["row_no"] == 2
    # The core recovers by a full resend in a new epoch.
    source.begin(2)
    head = source.open().head
    resend(source, [{"rec": 9, "seq": head[0] + 1, "price": 1}])
    source.flush(HANG)
    assert known(node) == {9: 1}


def test_a_batch_that_cannot_be_is_refused_before_it_is_sent(node: Node) -> None:
    source = node.source()
    with pytest.raises(ValueError, match="no field 'colour'"):
        source.send([{"rec": 1, "seq": 1, "colour": 3}])
    with pytest.raises(ValueError, match="row 2.*side"):
        source.send([{"rec": 1, "seq": 1}, {"rec": 2, "seq": 2, "side": 9}])
    with pytest.raises(ValueError, match="attributes"):
        source.send([{"rec": 1, "seq": 1}], attributes=[b"x" * 601])
    with pytest.raises(ValueError, match="want one for each"):
        source.send([{"rec": 1, "seq": 1}], attributes=[b"x", b"y"])
    too_many = [{"rec": rec, "seq": rec} for rec in range(1, weir.BATCH_ROWS_MAX + 2)]
    with pytest.raises(ValueError, match="more than a batch may have"):
        source.send(too_many)
    assert source.unacknowledged == 0


def test_a_writer_with_no_room_waits_for_acknowledgements(node: Node) -> None:
    source = node.source(unacknowledged_max=2000)
    resend(source, [])
    for rec in range(1, 31):
        source.send([{"rec": rec, "seq": 1 + rec, "attributes": b"." * 300}], timeout=HANG)
    source.flush(HANG)
    assert len(known(node)) == 30
