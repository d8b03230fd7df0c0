"""Errors, one class for each way to handle them.

Every error is a WeirError and has the server's reason by its name (`reason`, None without one), as
in the protocol's tables.
"""

from __future__ import annotations


class WeirError(Exception):
    """The base class of this package's errors."""

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason


class ConnectionLost(WeirError, ConnectionError):
    """There is no connection. A client that had one reconnects automatically."""


class LogonRejected(WeirError):
    """The node refused the logon: a wrong key, a session that is not defined or not allowed."""


class LoggedOut(WeirError):
    """The node closed the session."""


class Closed(WeirError):
    """The client was closed by this program."""


class WrongNode(WeirError):
    """The address does not resolve, or another node than the expected one answered."""


class Refused(WeirError):
    """The server refused a request and would refuse it again; `reason` has the cause."""


class Timeout(WeirError, TimeoutError):
    """Nothing came within the timeout."""


class TooManyUnanswered(WeirError):
    """The limit of unanswered requests is reached: read events first."""


class ProtocolError(WeirError):
    """The bytes received are not valid messages of a node: a broken connection or a bug."""


class OtherHistory(WeirError):
    """The node's history differs from the one received: events were lost."""


class SubscriptionEnded(WeirError):
    """The subscription was evicted, expired or deleted; the message has the places taken."""


class SourceRefused(WeirError):
    """The store refused to open the source, or refused a batch.

    `details` has the fields of the protocol's SourceReject: batch, row, head, known epoch.
    """

    def __init__(
        self, message: str, reason: str | None = None, details: dict | None = None
    ) -> None:
        super().__init__(message, reason)
        self.details = details or {}


class Resync(WeirError):
    """A token was refused: all order state received before is void.

    `token` is the oldest legal one. The follower continues from there: iterate it again.
    """

    token: bytes = b""


class ResyncToken(Resync):
    """The token is malformed, damaged, or of another service."""


class ResyncFilter(Resync):
    """The token belongs to another filter or other rights."""


class ResyncEpoch(Resync):
    """The source lost the end of its history, and the token with it."""


class ResyncFloor(Resync):
    """The token is older than the retention of ended orders."""


RESYNCS: dict[str, type[Resync]] = {
    kind.__name__: kind for kind in (ResyncToken, ResyncFilter, ResyncEpoch, ResyncFloor)
}
