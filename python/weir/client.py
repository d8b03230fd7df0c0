"""A session at a node: order state by token, and the session's own orders."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator
from types import SimpleNamespace, TracebackType
from typing import Any

from . import _weir
from ._weir import OrderBatch
from .codes import MarketContent, OrdType, Side, TimeInForce
from .endpoint import Endpoint, Tls
from .errors import RESYNCS, Resync
from .market import Market
from .token import Token

#: The longest wait of an asynchronous iterator in its executor, in seconds.
_LOOK = 0.5


class Client:
    """One session on one connection; it reconnects automatically after a loss.

    Order state and orders share the connection. It is kept alive, and comes back, also while the
    program waits for nothing. Several threads may use a client; a request may then wait while
    another thread reads the connection, for at most 25 ms.
    """

    def __init__(
        self,
        address: str,
        *,
        session: int,
        key: str | bytes | None = None,
        signing_key: str | bytes | os.PathLike[str] | None = None,
        tls: Tls | None = None,
        heartbeat: float = 5.0,
    ) -> None:
        """Connects and logs on; raises ConnectionLost or LogonRejected on failure."""
        self._endpoint = Endpoint(address, session, key, signing_key, tls, heartbeat)
        self._service = _weir.Service(self._endpoint)
        self._trader = _weir.Trader(self._service)

    def orders(
        self,
        *,
        firm: int = 0,
        account: int = 0,
        instrument: int = 0,
        live: bool = False,
        source: int = 0,
        token: Token | bytes | str | None = None,
        min_token: Token | bytes | str | None = None,
        min_wait: float = 0.0,
        rows_max: int = 0,
        rows_min: int = 1,
        wait: float = 0.5,
        credit: int = 1,
        until_online: bool = False,
        timeout: float | None = None,
        resync: str = "raise",
        empty: bool = False,
    ) -> Orders:
        """Follows order state from a token on, batch by batch, without end.

        `firm`, `account`, `instrument` and `live` filter; `source` is an outside core's number,
        0 for the node's own (or, of a router, all). `rows_max` limits a batch, which waits for
        `rows_min` rows for up to `wait` seconds. `min_token` is the token that the store must reach
        within `min_wait` seconds. `until_online` ends the iteration at the newest state; `timeout`
        raises Timeout if nothing comes for that many seconds. `resync` selects the handling of a
        refused token: "raise" a Resync, or "return" it in place of a batch. `empty` yields batches
        without rows too.
        """
        if resync not in ("raise", "return"):
            raise ValueError(f"resync={resync!r}: want 'raise' or 'return'")
        question = SimpleNamespace(
            firm=firm,
            account=account,
            instrument=instrument,
            live=live,
            source=source,
            token=bytes(Token.of(token)),
            min_token=bytes(Token.of(min_token)),
            min_wait_us=round(min_wait * 1e6),
            rows_max=rows_max,
            rows_min=rows_min,
            wait_max_us=round(wait * 1e6),
            credit=credit,
        )
        follower = _weir.OrderFollower(self._service, question)
        return Orders(follower, Token.of(token), (until_online, timeout, resync == "raise", empty))

    def market(
        self,
        address: str,
        *,
        contents: str | MarketContent | Iterable[str | MarketContent] = (),
        patterns: str | Iterable[str] = "*",
        interval: float = 0.0,
        timeout: float | None = None,
        **options: Any,
    ) -> Market:
        """Subscribes to market data at a gateway's own listener, with the same session and key.

        `contents` are bbo, depth, levels, orders, trades, statistics, status; each is subscribed to
        for each of `patterns` (a symbol, a symbol's prefix and a star, or a star). `interval` and
        further options are those of Market.subscribe. Iterate the result; with `timeout` it raises
        Timeout if nothing comes for that many seconds. It has a connection of its own, which this
        client's `close` leaves open.
        """
        return Market(
            self._endpoint.at(address),
            contents=contents,
            patterns=patterns,
            interval=interval,
            timeout=timeout,
            **options,
        )

    def new_order(
        self,
        cl_ord_id: str,
        *,
        instrument: int,
        account: int,
        side: Side,
        qty: int,
        price: int = 0,
        ord_type: OrdType = OrdType.Limit,
        time_in_force: TimeInForce = TimeInForce.Day,
        stop_px: int = 0,
        min_qty: int = 0,
        display_qty: int = 0,
        expire_time: int = 0,
        post_only: bool = False,
        self_trade_prevention: int = 0,
        partition: int = 0,
    ) -> int:
        """Enters an order; returns the number of the request. Its outcome comes in `events`.

        It is sent again after a loss of the connection and executed once. `partition` is that of
        the instrument; only at a node with a single one it may be left out.
        """
        order = SimpleNamespace(
            cl_ord_id=cl_ord_id,
            instrument=instrument,
            account=account,
            side=int(side),
            ord_type=int(ord_type),
            time_in_force=int(time_in_force),
            price=price,
            stop_px=stop_px,
            qty=qty,
            min_qty=min_qty,
            display_qty=display_qty,
            expire_time=expire_time,
            post_only=post_only,
            self_trade_prevention=self_trade_prevention,
        )
        return self._trader.enter(partition, order)

    def cancel_order(
        self, cl_ord_id: str, orig_cl_ord_id: str, *, instrument: int, partition: int = 0
    ) -> int:
        """Cancels the remainder of an order; returns the number of the request.

        `partition` as in new_order.
        """
        return self._trader.cancel(partition, (cl_ord_id, orig_cl_ord_id, instrument))

    def replace_order(
        self,
        cl_ord_id: str,
        orig_cl_ord_id: str,
        *,
        instrument: int,
        price: int,
        qty: int,
        partition: int = 0,
    ) -> int:
        """Changes an order's price and total quantity; returns the number of the request.

        `partition` as in new_order.
        """
        names = (cl_ord_id, orig_cl_ord_id, instrument)
        return self._trader.replace(partition, names, (price, qty))

    def event(self, timeout: float | None = None) -> dict[str, Any] | None:
        """Waits for the next event of the session's orders; None if there is none in time.

        The event is a dictionary of the message's fields: `type` is its name (ExecutionReport,
        RequestRejected, Reject, TradeBusted ...), `answered` the number of the request of which it
        is the first answer.
        """
        return self._trader.next(timeout)

    def events(self) -> Iterator[dict[str, Any]]:
        """Iterates over the events of the session's orders, without end."""
        while True:
            event = self._trader.next(None)
            if event is not None:
                yield event

    @property
    def connections(self) -> int:
        """The number of connections so far."""
        return self._service.connections

    def take_failure(self) -> Exception | None:
        """The error that ended the last connection, returned once; None if there is none."""
        return self._service.take_failure()

    def close(self) -> None:
        """Logs out; waiting threads get Closed."""
        self._service.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Orders:
    """A stream of order state: an iterator and an asynchronous one.

    `token` is that of the last batch returned, never of one still under way: if it is stored after
    the batch was processed, a crash repeats rows and skips none.
    """

    def __init__(
        self,
        follower: _weir.OrderFollower,
        token: Token,
        how: tuple[bool, float | None, bool, bool],
    ) -> None:
        self._follower = follower
        self._until_online, self._timeout, self._raises, self._empty = how
        self._is_done = False
        #: The token after all batches returned so far.
        self.token = token
        #: True once the newest state was reached: further batches are live.
        self.online = False

    def __iter__(self) -> Orders:
        return self

    def __next__(self) -> OrderBatch:
        while not self._is_done:
            said = self._said(self._follower.next(self._timeout))
            if said is not None:
                return said
        raise StopIteration

    def __aiter__(self) -> Orders:
        return self

    async def __anext__(self) -> OrderBatch:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while not self._is_done:
            # The wait takes nothing from the follower: a cancelled wait loses no batch.
            came = self._follower.take()
            if came is not None:
                said = self._said(came)
                if said is not None:
                    return said
                begun = loop.time()
                continue
            if self._timeout is not None and loop.time() - begun > self._timeout:
                from .errors import Timeout

                raise Timeout("no batch in time")
            await loop.run_in_executor(None, self._follower.wait, _LOOK)
        raise StopAsyncIteration

    def _said(self, came: OrderBatch | tuple[str, bytes]) -> OrderBatch | None:
        """Converts an item of the follower to the iterator's value; None to skip it."""
        if isinstance(came, tuple):
            reason, token = came
            self.token, self.online = Token(token), False
            error = RESYNCS.get(reason, Resync)(
                "the token is not honoured: forget what was told before; it comes again", reason
            )
            error.token = self.token
            if self._raises:
                raise error
            return error  # type: ignore[return-value]
        self.token = came.token
        is_news = came.online != self.online or came.source_away
        self.online = came.online
        self._is_done = self._until_online and came.online
        if len(came) or self._empty or is_news:
            return came
        return None

    def close(self) -> None:
        """Ends the follower."""
        self._is_done = True
        self._follower.close()

    def __enter__(self) -> Orders:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
