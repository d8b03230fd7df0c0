"""Market data of a real gateway, fed by the test's own venue over UDP."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weir
from conftest import HANG, Node, until
from test_examples import interrupt, run

HOUR = 3600.0


class Venue:
    """ITCH 5.0 over MoldUDP64, message by message, by Nasdaq's specifications."""

    def __init__(self, port: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._to = ("127.0.0.1", port)
        self.sequence = 1

    def say(self, kind: str, locate: int, *bodies: bytes, is_lost: bool = False) -> None:
        """Sends messages of one type in one packet, or drops the packet."""
        start = kind.encode() + struct.pack(">HH6s", locate, 0, b"\0\0\0\0\x03\xe8")
        packet = struct.pack(">10sQH", b"A         ", self.sequence, len(bodies))
        for body in bodies:
            packet += struct.pack(">H", len(start) + len(body)) + start + body
        self.sequence += len(bodies)
        if not is_lost:
            self._socket.sendto(packet, self._to)

    def define(self, locate: int, symbol: str) -> None:
        stock = symbol.ljust(8).encode()
        self.say("R", locate, stock + b"QN" + struct.pack(">I", 100) + b"NCZ PN 1N\0\0\0\0N")
        self.say("H", locate, stock + b"T" + b" " + b"    ")

    def add(
        self, locate: int, number: int, side: str, shares: int, price: int, is_lost: bool = False
    ) -> None:
        body = struct.pack(">QcI8sI", number, side.encode(), shares, b" " * 8, price)
        self.say("A", locate, body, is_lost=is_lost)

    def cancel(self, locate: int, number: int, shares: int) -> None:
        self.say("X", locate, struct.pack(">QI", number, shares))

    def trade(self, locate: int, shares: int, price: int, *numbers: int) -> None:
        rest = b" " * 8
        bodies = [struct.pack(">QcI8sIQ", 0, b"B", shares, rest, price, at) for at in numbers]
        self.say("P", locate, *bodies)

    def close(self) -> None:
        self._socket.close()


class Gateway(Node):
    """A node that serves market data, and its venue."""

    def market(self, contents: Any = (), **options: Any) -> weir.Market:
        """A subscriber that may stop reading for a while."""
        with self.client(11, heartbeat=60.0) as client:
            return client.market(self.places, contents=contents, **options)

    @property
    def places(self) -> str:
        return self.status()["market"]["addresses"][0]

    def subscribers(self) -> list[dict[str, Any]]:
        """The status of the gateway's subscribers."""
        return self.status()["market"]["flush"][0]["subscribers"]

    def settle(self, venue: Venue) -> None:
        """Waits until the gateway has processed everything sent by the venue."""
        def is_taken() -> bool:
            channels = self.status()["market"]["receive"]["channels"]
            return [channel["next"] for channel in channels] == [venue.sequence]

        until("what was said", is_taken)


@pytest.fixture
def venue_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def gateway(
    tmp_path: Path, market: tuple[Path, dict[int, str]], venue_port: int
) -> Iterator[Gateway]:
    data, keys = market
    shutil.copytree(data, tmp_path / "data")
    config = (
        '[market_gateway]\nlisten = "127.0.0.1:0"\nbbo_interval_us = 0\n'
        '[market_gateway.feed]\nname = "itch"\n'
        "[market_gateway.feed.timing]\nreorder_us = 0\ngive_up_ms = 50\n"
        f'[[market_gateway.feed.lines]]\na = "127.0.0.1:{venue_port}"\n'
    )
    gateway = Gateway(tmp_path, keys, config=config)
    try:
        yield gateway
    finally:
        gateway.kill()
        shutil.rmtree(tmp_path / "data")


@pytest.fixture
def venue(gateway: Gateway, venue_port: int) -> Iterator[Venue]:
    venue = Venue(venue_port)
    venue.define(1, "ODD1")
    venue.define(2, "EVEN2")
    venue.add(1, 1, "B", 100, 900_000)
    gateway.settle(venue)
    yield venue
    venue.close()


def take(
    market: weir.Market, is_there: Callable[[list[weir.MarketBatch]], bool]
) -> list[weir.MarketBatch]:
    """Reads batches until they satisfy `is_there`."""
    batches: list[weir.MarketBatch] = []
    while not is_there(batches):
        batches.append(market.next(HANG))
    return batches


def subscriptions(gateway: Gateway, market: weir.Market) -> list[int]:
    """The number of subscriptions per subscriber; a read sends the queued requests."""
    with contextlib.suppress(weir.Timeout):
        market.next(0.01)
    return [report["subscriptions"] for report in gateway.subscribers()]


def rows(batches: list[weir.MarketBatch], name: str) -> list:
    return [row for batch in batches for row in getattr(batch, name)]


def test_quotes_trades_levels_orders_and_the_day_are_the_venues(
    gateway: Gateway, venue: Venue
) -> None:
    contents = ["bbo", "trades", "levels", "orders", "statistics", "status"]
    with gateway.market(contents, patterns=["ODD1"]) as market:
        began = take(market, lambda batches: len(rows(batches, "orders")) > 0)
        ((head, resting),) = [book for batch in began for book in batch.order_books()]
        assert (head["instrument_id"], resting["order_id"].tolist()) == (1, [1])
        assert (resting["size"].tolist(), resting["price"].tolist()) == ([100], [90_000_000_000])
        venue.add(1, 2, "S", 50, 910_000)
        venue.add(2, 3, "S", 50, 910_000)
        for number in range(1, 21):
            venue.trade(1, 7, 905_000, number)
        gateway.settle(venue)
        batches = take(
            market,
            lambda batches: len(rows(batches, "trades")) == 20
            and any(day["trade_count"] == 20 for day in rows(batches, "statistics"))
            and any(quote["ask_size"] == 50 for quote in rows(batches, "quotes"))
            and any(len(levels) == 2 for batch in batches for _, levels in batch.books()),
        )
        assert [int(trade["match_id"]) for trade in rows(batches, "trades")] == list(range(1, 21))
        sequences = [int(trade["last_sequence"]) for trade in rows(batches, "trades")]
        assert sequences == list(range(venue.sequence - 20, venue.sequence))
        quote = rows(batches, "quotes")[-1]
        assert (quote["bid_size"], quote["change_count"]) == (100, 1)
        assert market.symbol(1) == "ODD1" and market.symbol(2) is None
        assert market.instrument(1) == ("ODD1", -9, 100, 0)
        assert market.decimal(1, quote["bid_px"]) == Decimal("90")
        assert market.decimal(1, quote["ask_px"]) == Decimal("91")
        head, levels = [book for batch in batches for book in batch.books()][-1]
        assert head["instrument_id"] == 1
        sides = [weir.Side(int(side)) for side in levels["side"]]
        assert (sides, levels["size"].tolist()) == ([weir.Side.Buy, weir.Side.Sell], [100, 50])
        (added,) = rows(batches, "changes")
        assert (added["action"], added["order_id"]) == (weir.OrderAction.Add, 2)
        turnover = [batch.turnovers[-1] for batch in batches if len(batch.statistics)][-1]
        assert turnover == 20 * 7 * 90_500_000_000
        for batch in batches:
            # The arrays together have all messages, and the kinds their order.
            count = sum(len(getattr(batch, name)) for name in weir.MARKET_KINDS)
            assert count == len(batch) == len(batch.kinds)
            for place, name in enumerate(weir.MARKET_KINDS):
                assert np.count_nonzero(batch.kinds == place) == len(getattr(batch, name)), name
            assert not batch.stale and batch.received_time > 0
        # Times are exact: the venue's is a microsecond after midnight, to the nanosecond.
        times = [int(trade["event_time"]) for trade in rows(batches, "trades")]
        assert all(time % 86_400_000_000_000 == 1_000 for time in times)
        for batch in batches:
            for trade in batch.trades:
                assert trade["receive_time"] <= trade["sending_time"] <= batch.received_time
                assert batch.received_time - trade["receive_time"] < HANG * 1e9
        assert market.channels == {0: weir.FeedState.Live} and market.lost == 0


def test_an_interval_merges_and_is_changed_live(gateway: Gateway, venue: Venue) -> None:
    with gateway.market("bbo", patterns="ODD*", interval=HOUR) as market:
        (first,) = rows(take(market, lambda batches: len(rows(batches, "quotes")) == 1), "quotes")
        assert first["flags"] == weir.MarketFlag.SNAPSHOT and first["change_count"] == 0
        assert market.intervals == {1: HOUR}
        for _ in range(10):
            venue.cancel(1, 1, 1)
        gateway.settle(venue)
        until("what waits", lambda: gateway.subscribers()[0]["waiting"] == 1)
        market.change_interval(0.001)
        (quote,) = rows(take(market, lambda batches: len(rows(batches, "quotes")) == 1), "quotes")
        assert (quote["bid_size"], quote["change_count"]) == (90, 10)
        assert int(quote["last_sequence"]) - int(quote["first_sequence"]) == 9
        assert quote["sending_time"] > quote["receive_time"]
        assert market.intervals == {1: 0.001}
        market.unsubscribe(1)
        assert market.subscriptions == {}
        until("the end", lambda: subscriptions(gateway, market) == [0])


def test_what_a_subscription_asks_for_is_what_the_gateway_does(
    gateway: Gateway, venue: Venue
) -> None:
    venue.add(1, 2, "B", 10, 890_000)
    venue.add(1, 3, "B", 10, 880_000)
    venue.add(2, 4, "S", 20, 700_000)
    gateway.settle(venue)
    with gateway.market(["orders"]) as market:
        batches = take(market, lambda batches: len(rows(batches, "orders")) == 2)
        books = [book for batch in batches for book in batch.order_books()]
        told = {int(head["instrument_id"]): rest["order_id"].tolist() for head, rest in books}
        assert told == {1: [1, 2, 3], 2: [4]}
    with gateway.market() as market:
        two = market.subscribe("ODD1", "depth", depth=2)
        batches = take(market, lambda batches: len(rows(batches, "levels")) > 0)
        ((head, levels),) = [book for batch in batches for book in batch.books()]
        assert (head["handle"], levels["size"].tolist()) == (two, [100, 10])
    with gateway.market() as market:
        patient = market.subscribe("ODD1", "bbo", interval=HOUR, urgent_move_ppm=1_000_000)
        quick = market.subscribe("ODD1", "bbo", interval=HOUR)
        take(market, lambda batches: len(rows(batches, "quotes")) == 2)
        venue.add(1, 5, "B", 7, 950_000)
        gateway.settle(venue)
        # More than a hundredth, and less than all of it: one waits.
        (quote,) = rows(take(market, lambda batches: len(rows(batches, "quotes")) == 1), "quotes")
        assert (quote["handle"], quote["bid_size"]) == (quick, 7)
        until("the other waits", lambda: gateway.subscribers()[0]["waiting"] == 1)
        assert patient != quick


def test_who_wanted_to_be_disconnected_is_and_does_not_come_back(
    gateway: Gateway, venue: Venue
) -> None:
    with gateway.market("trades", policy="disconnect", queue_len_max=50, timeout=HANG) as market:
        until("it is subscribed", lambda: subscriptions(gateway, market) == [1])
        count = 0
        # No batch is read: the sockets fill, then the queue.
        while len(gateway.subscribers()) > 0:
            for _ in range(20):
                venue.trade(1, 1, 905_000, *range(count, count + 25))
                count += 25
            gateway.settle(venue)
        with pytest.raises(weir.LoggedOut) as ended:
            told = [int(trade["match_id"]) for batch in market for trade in batch.trades]
            pytest.fail(f"it goes on after {len(told)} of {count} trades")
        assert ended.value.reason == "SlowConsumer"
        with pytest.raises(weir.LoggedOut):
            market.next(0.0)


def test_what_the_source_lost_is_marked(gateway: Gateway, venue: Venue) -> None:
    with gateway.market(["bbo"]) as market:
        take(market, lambda batches: len(rows(batches, "quotes")) > 0)
        venue.add(1, 2, "B", 1, 910_000, is_lost=True)
        venue.add(1, 3, "B", 1, 920_000)
        batches = take(
            market,
            lambda batches: any(quote["bid_size"] == 1 for quote in rows(batches, "quotes")),
        )
        assert rows(batches, "quotes")[-1]["flags"] & weir.MarketFlag.STALE
        assert market.stale and batches[-1].stale
        assert market.channels[0] == weir.FeedState.Stale


def test_who_does_not_keep_up_is_told_what_is_lost(gateway: Gateway, venue: Venue) -> None:
    with gateway.market(["trades", "status"], queue_len_max=100) as market:
        batches = take(market, lambda batches: len(rows(batches, "statuses")) > 0)
        assert rows(batches, "statuses")[0]["cause"] == weir.PhaseCause.Unknown
        count = 0
        # No batch is read: the sockets fill, then the queue, then messages are skipped.
        while not any(report["queue_len"] >= 50 for report in gateway.subscribers()):
            for _ in range(20):
                venue.trade(1, 1, 905_000, *range(count, count + 25))
                count += 25
            gateway.settle(venue)
        batches = take(
            market, lambda batches: len(rows(batches, "trades")) + market.lost == count
        )
        told = sum(int(gap["lost_count"]) for gap in rows(batches, "gaps"))
        assert market.lost == told > 0


def test_refusals_and_wrong_keys_are_raised(gateway: Gateway, venue: Venue) -> None:
    with gateway.market() as market:
        market.subscribe("*", "trades", policy="conflate")
        with pytest.raises(weir.Refused) as refused:
            market.next(HANG)
            market.next(HANG)
        assert refused.value.reason == "NeverConflated"
        with pytest.raises(ValueError, match="Bbo"):
            market.subscribe("*", "gossip")
        with pytest.raises(ValueError, match="25 bytes"):
            market.subscribe("A" * 26, "bbo")
        # The session continues.
        market.subscribe("*", weir.MarketContent.Bbo)
        take(market, lambda batches: len(rows(batches, "quotes")) > 0)
        with pytest.raises(weir.Timeout):
            market.next(0.05)
    with pytest.raises(weir.Closed):
        market.next(0.0)
    with pytest.raises(weir.LogonRejected) as rejected:
        weir.Market.open(gateway.places, session=11, key="77" * 32)
    assert rejected.value.reason == "UnknownKey"


def test_it_comes_back_after_a_loss_and_begins_with_what_is(
    gateway: Gateway, venue: Venue
) -> None:
    place = gateway.places
    # The gateway restarts at the same address.
    config = gateway.home / "weir.toml"
    text = config.read_text()
    before, now = ('[market_gateway]\nlisten = "' + at + '"' for at in ("127.0.0.1:0", place))
    config.write_text(text.replace(before, now))
    with gateway.market(["bbo"]) as market:
        take(market, lambda batches: len(rows(batches, "quotes")) > 0)
        gateway.kill()
        gateway.start()
        venue.sequence = 1
        venue.define(1, "ODD1")
        venue.add(1, 9, "B", 77, 900_000)
        gateway.settle(venue)
        batches = take(
            market,
            lambda batches: any(quote["bid_size"] == 77 for quote in rows(batches, "quotes")),
        )
        assert len(batches) > 0
        failure = market.take_failure()
        assert isinstance(failure, weir.WeirError), failure


def test_batches_come_to_a_coroutine_too(gateway: Gateway, venue: Venue) -> None:
    async def follow() -> int:
        with gateway.market(["bbo", "trades"], timeout=HANG) as market:
            venue.trade(1, 1, 905_000, 1)
            async for batch in market:
                # A cancelled wait loses nothing.
                waiting = asyncio.ensure_future(market.__anext__())
                await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
                venue.trade(1, 1, 905_000, 2)
                if len(batch.trades) and batch.trades[-1]["match_id"] == 2:
                    return int(batch.trades[-1]["last_sequence"])
        return 0

    assert asyncio.run(follow()) > 0


def test_the_example_prints_quotes_and_trades(gateway: Gateway, venue: Venue) -> None:
    example = run("quotes.py", gateway.places, 11, gateway.keys[11], "ODD1")
    assert example.stdout is not None
    said = example.stdout.readline()
    assert "ODD1" in said and "100 x 90.000000000" in said
    venue.trade(1, 7, 905_000, 1)
    said = example.stdout.readline()
    assert "trade 7 at 90.500000000" in said
    interrupt(example)
