"""Durable subscriptions, which keep messages for absent subscribers, and addressed messages."""

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
    """The subscriptions of a session's firm: created, listed, drained, evicted, deleted.

    Each request has a connection of its own. A session can be logged on only once: while it is
    attached to a subscription or publishes, its requests are refused.
    `address` is the node's listener for subscribers (`[subscriptions]`), which does not take
    orders.
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
        """Creates a subscription, from the next message on.

        `kind` is executions, trades, messages or state. `topic` is the firm, the instrument or the
        session, 0 for all or one's own; `level` is the least durability level of its messages
        (memory, os, disk). 0 in a limit is the node's own; ages are in seconds.
        """
        quota = (quota_bytes, quota_messages, quota_age)
        self._manager.create((name, kind, topic), level, quota, expire_after)

    def list(self, firm: int = 0) -> list[dict[str, Any]]:
        """All subscriptions, each with its lag."""
        return self._manager.list(firm)

    def drain(self, name: str, *, firm: int = 0) -> None:
        """Drops the messages not taken; the subscription continues with the next message."""
        self._manager.act("drain", name, firm)

    def evict(self, name: str, *, firm: int = 0) -> None:
        """Drops the messages not taken, and ends the subscription."""
        self._manager.act("evict", name, firm)

    def delete(self, name: str, *, firm: int = 0) -> None:
        """Removes a subscription."""
        self._manager.act("delete", name, firm)

    def compact(self) -> None:
        """Compacts files that hold messages no longer needed; for supervisors and operators."""
        self._manager.act("compact", "", 0)

    def subscribe(self, name: str, **options: Any) -> Subscription:
        """Attaches to a subscription; options as of Subscription."""
        return Subscription(self._endpoint, name, **options)


class Subscription:
    """An attached subscription: iterate, process each message, acknowledge it.

    It reconnects automatically after a loss; only unacknowledged messages come again.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        name: str,
        *,
        credit: tuple[int, int] = (1024, 4 << 20),
        seen: Mapping[int, tuple[int, int]] | None = None,
    ) -> None:
        """`credit` is the limit of unacknowledged messages and of their bytes; `seen` has the
        places processed before, from an earlier `seen`."""
        self._reader = _weir.Reader(endpoint, name, credit, dict(seen or {}))

    def next(self, timeout: float | None = None) -> Message | None:
        """The next message; None if there is none in time. Raises SubscriptionEnded."""
        return self._reader.next(timeout)

    def __iter__(self) -> Iterator[Message]:
        while True:
            message = self._reader.next(None)
            if message is not None:
                yield message

    def ack(self, message: Message) -> None:
        """Acknowledges a message and all before it; sent at the next wait, or by `flush`."""
        self._reader.ack(message)

    def flush(self) -> None:
        """Sends acknowledgements at once."""
        self._reader.flush()

    def close(self) -> None:
        """Sends acknowledgements, and frees the session for another connection."""
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
        """The last (epoch, record) processed per source, to be stored."""
        return self._reader.seen

    def take_may_have_lost(self) -> bool:
        """True if the node has reported, since the last call, that messages may have been lost."""
        return self._reader.take_may_have_lost()

    def take_failure(self) -> Exception | None:
        """The error that ended the last connection, returned once; None if there is none."""
        return self._reader.take_failure()


class Publisher:
    """A publisher of messages to other sessions, sent again until they are acknowledged."""

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
        """Starts in an epoch with the number after `last`; a lost count needs a higher epoch."""
        endpoint = Endpoint(address, session, key, signing_key, tls, heartbeat)
        self._sender = _weir.Sender(endpoint, epoch, last)

    def publish(self, to: int, body: bytes) -> int:
        """Queues a message for a session; returns its number. `poll` or `flush` sends it."""
        return self._sender.publish(to, body)

    def poll(self, timeout: float = 0.0) -> int:
        """Sends; returns the number up to which all messages are acknowledged."""
        return self._sender.poll(timeout)

    def flush(self, timeout: float = 30.0) -> int:
        """Waits until every message is acknowledged or refused."""
        upto = self._sender.poll(timeout)
        if self._sender.unacknowledged:
            raise Timeout(f"{self._sender.unacknowledged} messages are without acknowledgement")
        return upto

    @property
    def unacknowledged(self) -> int:
        """The number of unacknowledged messages."""
        return self._sender.unacknowledged

    def take_refused(self) -> list[tuple[int, str]]:
        """Number and reason of the messages refused since the last call."""
        return self._sender.take_refused()

    def take_failure(self) -> Exception | None:
        """The error that ended the last connection, returned once; None if there is none."""
        return self._sender.take_failure()
