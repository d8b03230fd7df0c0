"""Market data of a gateway: subscriptions, and their messages in batches."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator
from decimal import Decimal
from types import SimpleNamespace, TracebackType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from . import _weir
from .codes import FeedState, MarketContent, MarketFlag, MarketPolicy
from .endpoint import Endpoint, Tls
from .errors import Timeout

#: The longest wait of an asynchronous iterator in its executor, in seconds.
_LOOK = 0.5

_SIGNED = {"price"}
#: Contents that can be conflated; the others have no interval.
_STATES = {
    MarketContent.Bbo,
    MarketContent.Depth,
    MarketContent.Levels,
    MarketContent.Statistics,
}

_Code = TypeVar("_Code", MarketContent, MarketPolicy)


def _format(size: int, schema_type: str) -> str:
    if schema_type == "statusReason":
        return f"S{size}"
    if size > 8:
        return f"V{size}"
    return f"<{'i' if schema_type in _SIGNED else 'u'}{size}"


def _dtype(length: int, fields: list[tuple[str, int, int, str]]) -> np.dtype:
    return np.dtype(
        {
            "names": [name for name, _, _, _ in fields],
            "formats": [_format(size, schema) for _, _, size, schema in fields],
            "offsets": [offset for _, offset, _, _ in fields],
            "itemsize": length,
        }
    )


#: The types of a batch's arrays, by name: fields have the offsets of the wire.
MARKET_DTYPES = {name: _dtype(*layout) for name, layout in _weir.MARKET_LAYOUTS.items()}

#: The names of the kinds of messages, by their index in `MarketBatch.kinds`.
MARKET_KINDS = [name for name in MARKET_DTYPES if not name.endswith("_rows")]


class Instrument(NamedTuple):
    """An instrument as reported by the gateway."""

    symbol: str
    #: The decimal exponent of all its prices.
    price_exponent: int
    #: Shares of a round lot; 0 if the source does not provide it.
    round_lot: int
    #: The previous day's closing price, as a mantissa; 0 if the source does not provide it.
    previous_close: int


class MarketBatch:
    """The messages received, in order, as a structured array for each kind of message.

    The arrays share the batch's memory. Prices are mantissas (`Market.decimal`), times nanoseconds
    since 1970. Every message has the number of changes merged into it (`change_count`), the
    source's sequence numbers of the first and the last, the times at which the oldest of them
    happened and was received, the gateway's `sending_time`, and `flags` (SNAPSHOT, STALE).
    """

    def __init__(self, came: dict[str, Any]) -> None:
        self._came = came
        #: The time at which it was read from the connection, in ns since 1970, by this clock.
        self.received_time: int = came["received_time"]

    def _array(self, name: str) -> np.ndarray:
        return np.frombuffer(self._came[name], dtype=MARKET_DTYPES[name])

    def __len__(self) -> int:
        return len(self._came["kinds"])

    def __repr__(self) -> str:
        counts = ((name, len(self._array(name))) for name in MARKET_KINDS)
        said = ", ".join(f"{count} {name}" for name, count in counts if count)
        return f"<MarketBatch of {said or 'nothing'}>"

    @property
    def kinds(self) -> np.ndarray:
        """The kind of each message, in order of receipt, as an index in MARKET_KINDS."""
        return np.frombuffer(self._came["kinds"], dtype=np.uint8)

    @property
    def quotes(self) -> np.ndarray:
        """Best bids and offers; a side without a quote has quantity 0."""
        return self._array("quotes")

    @property
    def trades(self) -> np.ndarray:
        """Trades, never merged; `conditions` has BROKEN (64) for a cancelled one."""
        return self._array("trades")

    @property
    def levels(self) -> np.ndarray:
        """The heads of changed level books; `books` has them with their levels."""
        return self._array("levels")

    @property
    def orders(self) -> np.ndarray:
        """The heads of order books; `order_books` has them with their orders."""
        return self._array("orders")

    @property
    def changes(self) -> np.ndarray:
        """Changes of single orders, never merged."""
        return self._array("changes")

    @property
    def statistics(self) -> np.ndarray:
        """The day's statistics; the turnover is in `turnovers`."""
        return self._array("statistics")

    @property
    def statuses(self) -> np.ndarray:
        """Trading states."""
        return self._array("statuses")

    @property
    def gaps(self) -> np.ndarray:
        """Messages lost by a subscription that did not keep up."""
        return self._array("gaps")

    @property
    def channels(self) -> np.ndarray:
        """State changes of the source's channels."""
        return self._array("channels")

    @property
    def stale(self) -> bool:
        """True if messages of the source were lost: books may be wrong."""
        # Statistics have the same flag bit.
        names = ("quotes", "trades", "levels", "orders", "changes", "statistics", "statuses")
        return any((self._array(name)["flags"] & MarketFlag.STALE).any() for name in names)

    @property
    def turnovers(self) -> list[int]:
        """The turnover of each row of `statistics`, as a mantissa of 128 bits."""
        fields = self.statistics["turnover"]
        return [int.from_bytes(bytes(field), "little", signed=True) for field in fields]

    def books(self) -> Iterator[tuple[np.void, np.ndarray]]:
        """Each row of `levels` with its levels: bids first, each side from the best on.

        With the flag MORE the next row of the instrument continues the same book.
        """
        return self._groups("levels", "level_rows", self._came["level_ends"])

    def order_books(self) -> Iterator[tuple[np.void, np.ndarray]]:
        """Each row of `orders` with its orders: bids first, in the order of priority."""
        return self._groups("orders", "order_rows", self._came["order_ends"])

    def _groups(
        self, heads: str, rows: str, ends: list[int]
    ) -> Iterator[tuple[np.void, np.ndarray]]:
        entries, begin = self._array(rows), 0
        for head, end in zip(self._array(heads), ends):
            yield head, entries[begin:end]
            begin = end


class Market:
    """A session at a gateway: an iterator of batches and an asynchronous one.

    The connection is read only while a batch is being waited for: a slow program gets the latest
    states, or gaps, by its subscriptions' policies, and is disconnected after 2.5 heartbeats
    without a read. After a loss it reconnects automatically and subscribes anew: states follow with
    the flag SNAPSHOT.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        contents: str | MarketContent | Iterable[str | MarketContent] = (),
        patterns: str | Iterable[str] = "*",
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        """Subscribes with the parameters of Client.market."""
        self._session = _weir.MarketSession(endpoint)
        self._timeout = timeout
        self._is_closed = False
        #: Pattern and content of each subscription, by its handle (`handle` in messages).
        self.subscriptions: dict[int, tuple[str, MarketContent]] = {}
        #: The state of each channel of the source.
        self.channels: dict[int, FeedState] = {}
        #: The number of messages reported as lost so far.
        self.lost = 0
        patterns = [patterns] if isinstance(patterns, str) else list(patterns)
        single = isinstance(contents, (str, MarketContent))
        for content in [contents] if single else contents:
            for pattern in patterns:
                self.subscribe(pattern, content, **options)

    @classmethod
    def open(
        cls,
        address: str,
        *,
        session: int,
        key: str | bytes | None = None,
        signing_key: str | bytes | os.PathLike[str] | None = None,
        tls: Tls | None = None,
        heartbeat: float = 5.0,
        **options: Any,
    ) -> Market:
        """Connects to a gateway's listener without a Client; options as of Client.market."""
        return cls(Endpoint(address, session, key, signing_key, tls, heartbeat), **options)

    def subscribe(
        self,
        pattern: str,
        content: str | MarketContent,
        *,
        interval: float = 0.0,
        depth: int = 5,
        policy: str | MarketPolicy | None = None,
        urgent_move_ppm: int = 10_000,
        queue_len_max: int = 0,
    ) -> int:
        """Subscribes to a symbol, a symbol's prefix and a star, or a star for all.

        `content` is bbo, depth, levels, orders, trades, statistics or status. A state is sent at
        most once in `interval` seconds, but at once if the price moved by `urgent_move_ppm`
        millionths. `policy` is keep, conflate, skip_and_notify or disconnect; without it states are
        conflated and events skipped with a notice. A subscription that the gateway refuses raises
        Refused at the next batch.
        """
        what = _named(MarketContent, content)
        is_state = what in _STATES
        wish = SimpleNamespace(
            pattern=pattern,
            content=int(what),
            depth=depth if what is MarketContent.Depth else 0,
            policy=None if policy is None else int(_named(MarketPolicy, policy)),
            interval_ns=round(interval * 1e9) if is_state else 0,
            urgent_move_ppm=urgent_move_ppm,
            queue_len_max=queue_len_max,
        )
        handle = self._session.subscribe(wish)
        self.subscriptions[handle] = (pattern, what)
        return handle

    def unsubscribe(self, handle: int) -> None:
        """Ends a subscription; messages under way still come."""
        self._session.unsubscribe(handle)
        self.subscriptions.pop(handle, None)

    def change_interval(self, interval: float, handle: int | None = None) -> None:
        """Changes the interval of one subscription, or of all subscriptions to states."""
        mine = self.subscriptions.items()
        states = [number for number, (_, content) in mine if content in _STATES]
        for number in states if handle is None else [handle]:
            self._session.set_interval(number, round(interval * 1e9))

    @property
    def intervals(self) -> dict[int, float]:
        """Intervals in force at the gateway in seconds, by subscription."""
        return {handle: span / 1e9 for handle, span in self._session.intervals.items()}

    def instrument(self, id: int) -> Instrument | None:
        """The instrument with this number; None if no message has named it."""
        known = self._session.instrument(int(id))
        return Instrument(*known) if known else None

    def symbol(self, id: int) -> str | None:
        """The symbol of an instrument; None if no message has named it."""
        known = self.instrument(id)
        return known.symbol if known else None

    def decimal(self, id: int, price: int) -> Decimal:
        """A price of this instrument, exactly. Raises KeyError if no message has named it."""
        known = self.instrument(id)
        if known is None:
            raise KeyError(f"no message has named instrument {id}")
        return Decimal(int(price)).scaleb(known.price_exponent)

    @property
    def stale(self) -> bool:
        """True if a channel of the source has lost messages and has not recovered yet."""
        states = (FeedState.Stale, FeedState.Recovering)
        return any(state in states for state in self.channels.values())

    def take_failure(self) -> Exception | None:
        """The error that ended the last connection, returned once; None if there is none."""
        return self._session.take_failure()

    def next(self, timeout: float | None = None) -> MarketBatch:
        """The next batch; raises Timeout if there is none within `timeout` seconds."""
        return self._noted(self._session.next(timeout))

    def __iter__(self) -> Market:
        return self

    def __next__(self) -> MarketBatch:
        if self._is_closed:
            raise StopIteration
        return self.next(self._timeout)

    def __aiter__(self) -> Market:
        return self

    async def __anext__(self) -> MarketBatch:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while not self._is_closed:
            # The wait takes nothing from the feed: a cancelled wait loses no batch.
            came = self._session.take()
            if came is not None:
                return self._noted(came)
            if self._timeout is not None and loop.time() - begun > self._timeout:
                raise Timeout("no market data in time")
            await loop.run_in_executor(None, self._session.wait, _LOOK)
        raise StopAsyncIteration

    def _noted(self, came: dict[str, Any]) -> MarketBatch:
        batch = MarketBatch(came)
        for channel in batch.channels:
            self.channels[int(channel["channel"])] = FeedState(int(channel["state"]))
        self.lost += int(batch.gaps["lost_count"].sum())
        return batch

    def close(self) -> None:
        """Closes the connection; a thread that waits for a batch gets Closed."""
        self._is_closed = True
        self._session.close()

    def __enter__(self) -> Market:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _named(kind: type[_Code], name: str | _Code) -> _Code:
    """Returns the value of a name, ignoring case and underscores."""
    if isinstance(name, kind):
        return name
    plain = str(name).replace("_", "").lower()
    for value in kind:
        if value.name.lower() == plain:
            return value
    raise ValueError(f"{name!r} is none of {', '.join(value.name for value in kind)}")
