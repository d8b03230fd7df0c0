"""Durable subscriptions and addressed messages, from Python."""

from __future__ import annotations

import pytest

import weir
from conftest import HANG, Node, trade


def subscriptions(node: Node, session: int) -> weir.Subscriptions:
    return weir.Subscriptions(node.broker, session=session, key=node.keys[session])


def sell(node: Node, number: int, price: int) -> None:
    with node.client(12) as client:
        client.new_order(
            f"s{number}", instrument=1, account=12, side=weir.Side.Sell, qty=1, price=price
        )
        while (event := client.event(HANG)) and event["exec_type"] != "Trade":
            pass


def test_executions_wait_for_who_is_away_and_acknowledged_ones_come_once(node: Node) -> None:
    ours = subscriptions(node, 11)
    ours.create("fills", "executions")
    trade(node, 1)
    sell(node, 1, 100)
    sell(node, 2, 100)
    reader = ours.subscribe("fills")
    first = reader.next(HANG)
    assert first is not None
    execution = first.decode()
    assert execution is not None and execution["exec_type"] == "Trade"
    assert (execution["last_px"], execution["last_qty"], execution["cl_ord_id"]) == (100, 1, "o0")
    reader.ack(first)
    reader.flush()
    seen = reader.seen
    assert list(seen.values()) == [first.place[1:]]
    reader.close()
    with pytest.raises(weir.Closed):
        reader.next(0.0)
    # The next subscriber gets the second message, and not the first.
    with ours.subscribe("fills", seen=seen) as again:
        second = again.next(HANG)
        assert second is not None and second.place > first.place
        again.ack(second)
    listed = {one["name"]: one for one in ours.list()}
    names = {name: listed["fills"][name] for name in ("kind", "status", "reason")}
    assert names == {"kind": "executions", "status": "live", "reason": None}
    ours.delete("fills")
    assert ours.list() == []


def test_messages_reach_their_addressee_and_nobody_is_a_refusal(node: Node) -> None:
    theirs = subscriptions(node, 12)
    theirs.create("inbox", "messages")
    publisher = weir.Publisher(node.broker, session=2, key=node.keys[2], epoch=1)
    for text in (b"one", b"two"):
        publisher.publish(12, text)
    assert publisher.publish(11, b"nobody") == 3
    publisher.flush(HANG)
    assert publisher.take_refused() == [(3, "NobodySubscribes")]
    inbox = theirs.subscribe("inbox")
    messages = [inbox.next(HANG), inbox.next(HANG)]
    assert [message and message.body for message in messages] == [b"one", b"two"]
    assert messages[0] and messages[0].decode() is None
    assert inbox.next(0.0) is None


def test_an_evicted_subscription_ends_with_its_reason(node: Node) -> None:
    ours = subscriptions(node, 11)
    ours.create("fills", "executions")
    subscriptions(node, 2).evict("fills", firm=11)
    subscriptions(node, 2).compact()
    with pytest.raises(weir.Refused):
        ours.compact()
    with pytest.raises(weir.SubscriptionEnded) as ended, ours.subscribe("fills") as reader:
        reader.next(HANG)
    assert ended.value.reason in weir.Reason.__members__
    with pytest.raises(weir.Refused) as refused:
        ours.create("fills", "executions")
    assert refused.value.reason in weir.Reason.__members__
    with pytest.raises(ValueError, match="not a kind"):
        ours.create("other", "gossip")
