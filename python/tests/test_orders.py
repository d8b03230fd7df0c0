"""Order state by token, against a real node."""

from __future__ import annotations

import asyncio
import signal
import threading
import time

import numpy as np
import pytest

import weir
from conftest import HANG, SOURCE, Node, trade, until


def snapshot(node: Node, session: int = 2, **options: object) -> tuple[weir.OrderTable, weir.Token]:
    """Reads everything up to the newest state; returns it with the token."""
    table = weir.OrderTable()
    with node.client(session) as client:
        orders = client.orders(until_online=True, timeout=HANG, **options)  # type: ignore[arg-type]
        for batch in orders:
            table.apply(batch)
        return table, orders.token


def test_a_batch_is_a_structured_array_of_the_orders_as_they_are(node: Node) -> None:
    trade(node, 3)
    with node.client(2) as client:
        orders = client.orders(until_online=True, timeout=HANG)
        batches = list(orders)
    rows = np.concatenate([batch.rows for batch in batches])
    assert rows.dtype == weir.ORDER_DTYPE
    assert rows["cl_ord_id"].tolist() == [b"o0", b"o1", b"o2"]
    assert rows["price"].tolist() == [100, 101, 102]
    assert rows["leaves_qty"].tolist() == [5, 5, 5]
    assert set(rows["side"].tolist()) == {weir.Side.Buy}
    assert set(rows["ord_status"].tolist()) == {weir.OrdStatus.New}
    assert set(rows["firm_id"].tolist()) == {11}
    last = batches[-1]
    assert last.online and last.token == orders.token and not last.source_away
    filled = [batch for batch in batches if len(batch)]
    assert filled[0].oldest_created == int(rows["transact_time"].min())
    for batch in filled:
        assert 0 < batch.oldest_created <= batch.served_time
        assert batch.asked_time <= batch.served_time <= batch.received_time
    assert node.token(last.token)["sources"][0]["seq"] >= int(rows["seq"].max())


def test_a_token_goes_on_where_it_was_and_survives_the_process_as_text(node: Node) -> None:
    trade(node, 2)
    table, token = snapshot(node)
    assert len(table) == 2
    kept = node.home / "token"
    token.save(kept)
    trade(node, 2, first=10)
    assert weir.Token.load(kept) == token == weir.Token.of(str(token))
    later, newer = snapshot(node, token=weir.Token.load(kept))
    assert sorted(row["cl_ord_id"] for row in later.to_numpy()) == [b"o10", b"o11"]
    assert newer != token and weir.Token.load(node.home / "none") == weir.Token()


def test_filters_and_rights_are_the_servers(node: Node) -> None:
    trade(node, 2)
    with node.client(12) as client:
        client.new_order("b", instrument=1, account=12, side=weir.Side.Buy, qty=1, price=99)
        assert client.event(HANG)
    assert [len(snapshot(node, firm=firm)[0]) for firm in (0, 11, 12)] == [3, 2, 1]
    # A trader sees its own firm's orders and may not name another firm.
    assert len(snapshot(node, session=12)[0]) == 1
    with pytest.raises(weir.Refused) as refused:
        snapshot(node, session=12, firm=11)
    assert refused.value.reason == "NotEntitled"


def test_live_orders_go_on_while_they_change(node: Node) -> None:
    trade(node, 1)
    table = weir.OrderTable(live=True)
    with node.client(2) as client, node.client(11) as trader:
        orders = client.orders(live=True, timeout=HANG)
        while not (orders.online and len(table) == 1):
            table.apply(next(orders))
        order_id = int(table.to_numpy()["order_id"][0])
        trader.replace_order("o0b", "o0", instrument=1, price=90, qty=7)
        while table[order_id]["price"] != 90:
            table.apply(next(orders))
        assert table[order_id]["leaves_qty"] == 7
        trader.cancel_order("c", "o0b", instrument=1)
        while len(table):
            table.apply(next(orders))


def test_a_token_that_is_not_honoured_is_a_resync_with_its_reason_and_goes_on(node: Node) -> None:
    trade(node, 2)
    _, token = snapshot(node)
    with node.client(2) as client:
        # A token of another filter.
        orders = client.orders(token=token, firm=11, until_online=True, timeout=HANG)
        with pytest.raises(weir.ResyncFilter) as resync:
            next(orders)
        assert resync.value.reason == "ResyncFilter"
        assert orders.token == resync.value.token != token
        table = weir.OrderTable()
        for batch in orders:
            table.apply(batch)
        assert len(table) == 2
        # The resync is returned in place of a batch.
        table = weir.OrderTable()
        for batch in client.orders(
            token=token, firm=11, until_online=True, timeout=HANG, resync="return"
        ):
            table.apply(batch)
        assert len(table) == 2
        with pytest.raises(weir.ResyncToken):
            next(client.orders(token=b"\2" * 58, timeout=HANG))


def test_a_client_comes_back_after_its_node_was_killed(node: Node) -> None:
    trade(node, 2)
    with node.client(2) as client:
        orders = client.orders(timeout=HANG)
        table = weir.OrderTable()
        while not orders.online:
            table.apply(next(orders))
        node.kill()
        node.start()
        trade(node, 2, first=20)
        while len(table) < 4:
            table.apply(next(orders))
        assert client.connections == 2
        assert isinstance(client.take_failure(), weir.ConnectionLost)


def test_a_trader_comes_back_without_waiting_for_events(node: Node) -> None:
    with node.client(11, heartbeat=0.2) as client:
        client.new_order("before", instrument=1, account=11, side=weir.Side.Buy, qty=1, price=50)
        event = client.event(HANG)
        assert event is not None and event["ord_status"] == "New"
        node.kill()
        node.start()
        deadline = time.monotonic() + HANG
        number = None
        while number is None:
            assert time.monotonic() < deadline, "it does not come back by itself"
            try:
                number = client.new_order(
                    "after", instrument=1, account=11, side=weir.Side.Buy, qty=1, price=50
                )
            except weir.ConnectionLost:
                time.sleep(0.02)
        # One that was sent before the loss was noticed is sent again.
        answered = None
        while answered != number:
            event = client.event(HANG)
            assert event is not None, "the order has no answer"
            answered = event["answered"]
        assert client.connections == 2


def test_a_reader_that_is_busy_for_longer_than_its_heartbeat_keeps_its_session(node: Node) -> None:
    trade(node, 2)
    with node.client(2, heartbeat=0.05) as client:
        orders = client.orders(timeout=HANG)
        table = weir.OrderTable()
        while not orders.online:
            table.apply(next(orders))
        # Nobody waits for anything for twenty times as long.
        time.sleep(1)
        trade(node, 1, first=20)
        while len(table) < 3:
            table.apply(next(orders))
        assert client.connections == 1
        assert node.status()["gateway"]["sessions_lost"] == 0


def test_two_followers_of_one_client_share_its_connection_between_threads(node: Node) -> None:
    with node.client(2) as client:
        tables = [weir.OrderTable(), weir.OrderTable()]

        def follow(table: weir.OrderTable, firm: int) -> None:
            with client.orders(firm=firm, timeout=HANG) as orders:
                while len(table) < 5:
                    table.apply(next(orders))

        threads = [
            threading.Thread(target=follow, args=(table, firm))
            for table, firm in zip(tables, (0, 11))
        ]
        for thread in threads:
            thread.start()
        trade(node, 5)
        for thread in threads:
            thread.join(HANG)
        assert [len(table) for table in tables] == [5, 5]
        assert client.connections == 1


def test_a_follower_that_does_not_take_asks_for_no_more_than_a_few_pages(node: Node) -> None:
    trade(node, 40)
    with node.client(2) as client:
        slow = client.orders(rows_max=1, timeout=HANG)
        quick = client.orders(until_online=True, rows_max=1, timeout=HANG)
        assert sum(len(batch) for batch in quick) == 40
        questions = until("the figures", lambda: node.status()["delivery"]["pages"])
        # 40 pages for the quick one; the slow one has a full queue and one more under way.
        assert questions < 60, questions
        table = weir.OrderTable()
        while not slow.online:
            table.apply(next(slow))
        assert len(table) == 40


def test_an_asynchronous_iterator_takes_turns_with_others_and_loses_nothing_when_cancelled(
    node: Node,
) -> None:
    trade(node, 3)

    async def main() -> tuple[int, int]:
        table, ticks = weir.OrderTable(), 0
        with node.client(2) as client:
            orders = client.orders(rows_max=1)

            async def tick() -> None:
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0.001)

            ticker = asyncio.create_task(tick())
            while len(table) < 3:
                try:
                    table.apply(await asyncio.wait_for(anext(orders), 0.002))
                except asyncio.TimeoutError:
                    pass
            loop = asyncio.get_running_loop()
            loop.call_later(0.05, threading.Thread(target=trade, args=(node, 1, 9)).start)
            async for batch in orders:
                table.apply(batch)
                if len(table) == 4:
                    break
            ticker.cancel()
        return len(table), ticks

    count, ticks = asyncio.run(asyncio.wait_for(main(), HANG))
    assert count == 4
    assert ticks > 5, "nobody else had a turn"


def test_waiting_holds_no_lock_and_hears_an_interrupt(node: Node) -> None:
    with node.client(2) as client:
        orders = client.orders(until_online=True)
        list(orders)
        ticks = 0
        done = threading.Event()

        def tick() -> None:
            nonlocal ticks
            while not done.is_set() and ticks < 200:
                ticks += 1
                time.sleep(0.001)
            signal.raise_signal(signal.SIGINT) if not done.is_set() else None

        live = client.orders(token=orders.token)
        thread = threading.Thread(target=tick)
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            next(live)
        done.set()
        thread.join()
        assert ticks == 200


def test_a_closed_client_tells_whoever_waits(node: Node) -> None:
    client = node.client(2)
    list(client.orders(until_online=True))
    errors: list[Exception] = []

    def follow() -> None:
        try:
            for _ in client.orders():
                pass
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    until("the reader", lambda: node.status()["delivery"]["parked"])
    client.close()
    thread.join(HANG)
    assert [type(error) for error in errors] == [weir.Closed]


def test_reads_wait_for_what_was_seen_elsewhere(node: Node) -> None:
    trade(node, 1)
    _, token = snapshot(node)
    assert len(snapshot(node, min_token=token, min_wait=5.0)[0]) == 1
    with pytest.raises(weir.Refused) as refused:
        snapshot(node, min_token=b"\2" * 58)
    assert refused.value.reason == "MinTokenInvalid"


def test_what_is_refused_at_the_door_is_told_by_its_reason(node: Node) -> None:
    with pytest.raises(weir.LogonRejected) as rejected:
        weir.Client(node.address, session=2, key="ff" * 32)
    assert rejected.value.reason
    with pytest.raises(weir.Refused) as refused, node.client(2) as client:
        next(client.orders(source=99, timeout=HANG))
    assert refused.value.reason == "UnknownSource"
    with pytest.raises(weir.WrongNode):
        weir.Client("nowhere.invalid:1", session=2, key="ff" * 32)
    with pytest.raises(weir.ConnectionLost):
        weir.Client("127.0.0.1:1", session=2, key="ff" * 32)
    for key in ("zz" * 32, "ff" * 31):
        with pytest.raises(ValueError) as wrong:
            weir.Client(node.address, session=2, key=key)
        assert key not in str(wrong.value)


def test_the_sessions_orders_are_executed_and_told(node: Node) -> None:
    trade(node, 1)
    with node.client(12) as client:
        number = client.new_order(
            "s", instrument=1, account=12, side=weir.Side.Sell, qty=5, price=1
        )
        said = [client.event(HANG), client.event(HANG)]
        assert [event and event["exec_type"] for event in said] == ["New", "Trade"]
        assert [event and event["reason"] for event in said] == [None, None]
        assert said[0] and said[0]["answered"] == number and said[0]["cl_ord_id"] == "s"
        assert said[1] and (said[1]["last_px"], said[1]["last_qty"]) == (100, 5)
        client.cancel_order("c", "s", instrument=1)
        event = client.event(HANG)
        assert event and event["type"] == "RequestRejected", event
        assert event["reason"] in weir.Reason.__members__
        with pytest.raises(ValueError, match="side"):
            client.new_order("t", instrument=1, account=12, side=0, qty=5)  # type: ignore[arg-type]
        assert client.event(0.0) is None


def test_orders_of_an_outside_core_have_their_attributes(node: Node) -> None:
    with node.source() as source:
        order = {"rec": 1, "seq": 1, "attributes": b"beside"}
        source.send([order], resend_begin=True, resend_end=True)
    with node.client(2) as client:
        batch = next(b for b in client.orders(source=SOURCE, timeout=HANG) if len(b))
    assert batch.attributes == [b"beside"]
