"""Batches by Arrow's C data interface."""

from __future__ import annotations

import pyarrow as pa

import weir
from conftest import HANG, SOURCE, Node


def batch_of(node: Node) -> weir.OrderBatch:
    """A batch of an outside core: two orders, and one that is gone."""
    orders = [
        {"rec": 1, "seq": 1, "price": -5, "order_qty": 7, "cl_ord_id": "one", "side": "Sell"},
        {"rec": 2, "seq": 2, "transact_time": 1_700_000_000_000_000_001, "attributes": b"xyz"},
        {"rec": 3, "seq": 3, "ord_status": "Canceled", "reason": 1},
    ]
    with node.source() as source:
        source.send(orders, resend_begin=True, resend_end=True)
    with node.client(2) as client:
        return next(b for b in client.orders(source=SOURCE, timeout=HANG) if len(b) == 3)


def test_columns_say_what_the_rows_say(node: Node) -> None:
    batch = batch_of(node)
    table = pa.record_batch(batch)
    table.validate(full=True)
    assert table.num_rows == 3
    assert set(table.schema.names) == {*(weir.ORDER_DTYPE.names or ()), "attributes"}
    numbers = ["seq", "rec", "order_id", "price", "order_qty", "firm_id", "partition_id", "flags"]
    for name in numbers:
        assert table[name].to_pylist() == batch.rows[name].tolist(), name
    assert table["price"].to_pylist() == [-5, 0, 0]
    assert table["cl_ord_id"].to_pylist() == ["one", "", ""]
    assert table["side"].to_pylist() == ["Sell", "Buy", "Buy"]
    assert table["ord_status"].to_pylist() == ["New", "New", "Canceled"]
    assert table["reason"].to_pylist() == [None, None, weir.Reason(1).name]
    assert table["attributes"].to_pylist() == [b"", b"xyz", b""]
    assert table["transact_time"].type == pa.timestamp("ns", tz="UTC")
    times = table["transact_time"].cast(pa.int64()).to_pylist()
    assert times == [None, 1_700_000_000_000_000_001, None]


def test_columns_outlive_their_batch_and_batches_join_to_a_table(node: Node) -> None:
    batch = batch_of(node)
    one, two = pa.record_batch(batch), pa.record_batch(batch)
    del batch
    table = pa.Table.from_batches([one, two])
    assert table.num_rows == 6
    assert table.group_by("ord_status").aggregate([("rec", "count")]).num_rows == 2
    assert pa.schema(one.schema) == one.schema
