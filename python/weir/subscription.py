"""Durable subscriptions, which miss nothing while one is away, and messages for others."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from . import _weir
from ._weir import Message
from .endpoint import Endpoint, Tls
from .errors import Timeout


class Subscriptions:
    """The subscriptions of a session's firm: made, listed, drained, evicted, deleted.

    Each request has a connection of its own. A session is logged on once: while it is attached to a
    subscription or publishes, its requests are refused.
    `address` is the node's listener for subscribers (`[broker]`), which carries no orders.
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
        self._endpoint = Endpoint(address, session, key, signing_key, tls, heartbeat)
        self._manager = _weir.Manager(self._endpoint)

    def create(
        self,
        name: str,
        kind: str,
        *,
        topic: int = 0,
        level: str = "memory",
        quota_bytes: int = 0,
        quota_messages: int = 0,
        quota_age: float = 0.0,
        expire_after: float = 0.0,
    ) -> None:
        """Makes one, from the next message on: `kind` is executions, trades, messages or state.

        `topic` is the firm, the instrument or the session, 0 for all or one's own; `level` is what
        its messages are to survive at least (memory, os, disk). 0 in a limit is the node's own;
        ages are in seconds.
        """
        quota = (quota_bytes, quota_messages, quota_age)
        self._manager.create((name, kind, topic), level, quota, expire_after)

    def list(self, firm: int = 0) -> list[dict[str, Any]]:
        """All, with how far each is behind."""
        return self._manager.list(firm)

    def drain(self, name: str, *, firm: int = 0) -> None:
        """Gives up what it has not taken; it goes on with the next message."""
        self._manager.act("drain", name, firm)

    def evict(self, name: str, *, firm: int = 0) -> None:
        """Gives up what it has not taken, and ends it."""
        self._manager.act("evict", name, firm)

    def delete(self, name: str, *, firm: int = 0) -> None:
        """Removes it."""
        self._manager.act("delete", name, firm)

    def compact(self) -> None:
        """Has files emptied which hold what nobody wants any more: for supervisors, operators."""
        self._manager.act("compact", "", 0)

    def subscribe(self, name: str, **options: Any) -> Subscription:
        """Attaches to one: see Subscription."""
        return Subscription(self._endpoint, name, **options)


class Subscription:
    """A subscription that is attached to: iterate, deal with the message, acknowledge it.

    It comes back by itself after a loss; what was not acknowledged comes again, what was does not.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        name: str,
        *,
        credit: tuple[int, int] = (1024, 4 << 20),
        seen: Mapping[int, tuple[int, int]] | None = None,
    ) -> None:
        """`credit` is how many messages and bytes may be on their way; `seen` what was dealt with
        before, as `seen` said it then."""
        self._reader = _weir.Reader(endpoint, name, credit, dict(seen or {}))

    def next(self, timeout: float | None = None) -> Message | None:
        """The next message; None when there is none in time. Raises SubscriptionEnded."""
        return self._reader.next(timeout)

    def __iter__(self) -> Iterator[Message]:
        while True:
            message = self._reader.next(None)
            if message is not None:
                yield message

    def ack(self, message: Message) -> None:
        """Acknowledges a message and all before it; told with the next wait, or by `flush`."""
        self._reader.ack(message)

    def flush(self) -> None:
        """Tells the node at once what was acknowledged."""
        self._reader.flush()

    def close(self) -> None:
        """Tells the node what was acknowledged, and frees the session for another connection."""
        self._reader.close()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def seen(self) -> dict[int, tuple[int, int]]:
        """Of each source the last (epoch, record) that was dealt with, to be kept."""
        return self._reader.seen

    def take_may_have_lost(self) -> bool:
        """The node has said, since this was asked last, that messages may be missing."""
        return self._reader.take_may_have_lost()

    def take_failure(self) -> Exception | None:
        """What ended the last connection, told once; None when nothing did."""
        return self._reader.take_failure()


class Publisher:
    """Messages for other sessions, sent again until their addressees have them."""

    def __init__(
        self,
        address: str,
        *,
        session: int,
        epoch: int,
        last: int = 0,
        key: str | bytes | None = None,
        signing_key: str | bytes | os.PathLike[str] | None = None,
        tls: Tls | None = None,
        heartbeat: float = 5.0,
    ) -> None:
        """Begins in an epoch with the number after `last`; a lost count wants a higher epoch."""
        endpoint = Endpoint(address, session, key, signing_key, tls, heartbeat)
        self._sender = _weir.Sender(endpoint, epoch, last)

    def publish(self, to: int, body: bytes) -> int:
        """Takes a message for a session; its number. `poll` or `flush` sends it."""
        return self._sender.publish(to, body)

    def poll(self, timeout: float = 0.0) -> int:
        """Sends; the number up to which all messages are acknowledged."""
        return self._sender.poll(timeout)

    def flush(self, timeout: float = 30.0) -> int:
        """Waits until every message is acknowledged or refused."""
        upto = self._sender.poll(timeout)
        if self._sender.unacknowledged:
            raise Timeout(f"{self._sender.unacknowledged} messages are without acknowledgement")
        return upto

    @property
    def unacknowledged(self) -> int:
        """Messages without acknowledgement."""
        return self._sender.unacknowledged

    def take_refused(self) -> list[tuple[int, str]]:
        """Number and reason of those refused since this was asked last."""
        return self._sender.take_refused()

    def take_failure(self) -> Exception | None:
        """What ended the last connection, told once; None when nothing did."""
        return self._sender.take_failure()
