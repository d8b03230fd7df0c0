"""A small outside core: feeds the state of its orders into a delivery store, batch by batch.

    python feed.py 127.0.0.1:7002 SESSION KEY SOURCE EPOCH

The epoch must be above every earlier epoch of the source.
"""

import itertools
import random
import sys
import time

import weir


def main() -> None:
    address, session, key, number, epoch = sys.argv[1:]
    source = weir.Source(
        address, session=int(session), key=key, source=int(number), epoch=int(epoch)
    )
    opened = source.open()
    print(f"open; acknowledged batches survive at the level {opened.level}")
    seq = opened.head[0] + 1
    orders = {rec: 100 + rec for rec in range(1, 101)}
    # A full resend at one seq above the head; then changes, each at a seq of its own.
    source.send(
        [{"rec": rec, "seq": seq, "price": price, "order_qty": 10, "leaves_qty": 10}
         for rec, price in orders.items()],
        resend_begin=True,
        resend_end=True,
    )
    for seq in itertools.count(seq + 2):
        rec = random.choice(list(orders))
        orders[rec] += random.choice((-1, 1))
        now = time.time_ns()
        source.send([{"rec": rec, "seq": seq, "price": orders[rec], "transact_time": now}])
        source.poll(0.01)
        print(f"\r{source.acknowledged} batches acknowledged", end="", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print()
