"""Reads all orders once, as an Arrow table, and counts them by state.

    python to_arrow.py 127.0.0.1:7001 SESSION KEY
"""

import sys

import pyarrow as pa

import weir


def main() -> None:
    address, session, key = sys.argv[1:]
    with weir.Client(address, session=int(session), key=key) as client:
        orders = client.orders(until_online=True)
        batches = [pa.record_batch(batch) for batch in orders if len(batch)]
    if not batches:
        print("no orders")
        return
    table = pa.Table.from_batches(batches)
    print(table.group_by("ord_status").aggregate([("order_id", "count"), ("leaves_qty", "sum")]))


if __name__ == "__main__":
    main()
