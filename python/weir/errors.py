"""What can go wrong, one class for each thing to do about it.

Every error is a WeirError and has the server's reason by its name (`reason`, None where the server
said nothing), as in the protocol's tables.
"""

from __future__ import annotations


class WeirError(Exception):
    """Anything that this package says is wrong."""

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason


class ConnectionLost(WeirError, ConnectionError):
    """There is no connection. A client that had one comes back by itself."""


class LogonRejected(WeirError):
    """The node does not let the session in: a wrong key, a session that is not defined or open."""


class LoggedOut(WeirError):
    """The node closed the session."""


class Closed(WeirError):
    """The client was closed by this program."""


class WrongNode(WeirError):
    """The address does not resolve, or another node than the one meant is there."""


class Refused(WeirError):
    """A request that would be refused again: see the reason."""


class Timeout(WeirError, TimeoutError):
    """Nothing came in the time that was given."""


class TooManyUnanswered(WeirError):
    """As many requests have no answer as may: read events first."""


class ProtocolError(WeirError):
    """What came is not what a node says: a broken connection or a bug."""


class OtherHistory(WeirError):
    """The node has another past than the one that was told: something was lost."""


class SubscriptionEnded(WeirError):
    """The subscription was evicted, expired or deleted; the message says what was taken."""


class SourceRefused(WeirError):
    """The store does not open the source or refuses a batch.

    `details` has the fields of the protocol's SourceReject: batch, row, head, known epoch.
    """

    def __init__(
        self, message: str, reason: str | None = None, details: dict | None = None
    ) -> None:
        super().__init__(message, reason)
        self.details = details or {}


class Resync(WeirError):
    """A token is not honoured: forget every order that was told before.

    `token` is the oldest legal one. The follower goes on from there: iterate it again.
    """

    token: bytes = b""


class ResyncToken(Resync):
    """No token, a damaged one, or one of another service."""


class ResyncFilter(Resync):
    """The token was taken with another filter or other rights."""


class ResyncEpoch(Resync):
    """The source lost the end of its history, and the token with it."""


class ResyncFloor(Resync):
    """The token is older than what ended orders are kept for."""


RESYNCS: dict[str, type[Resync]] = {
    kind.__name__: kind for kind in (ResyncToken, ResyncFilter, ResyncEpoch, ResyncFloor)
}
