"""Enumerated field values by name; their numbers are those on the wire, mostly FIX's characters."""

from __future__ import annotations

from enum import IntEnum, IntFlag

from ._weir import CODES


class Side(IntEnum):
    """The side of an order."""

    Buy = ord("1")
    Sell = ord("2")


class OrdType(IntEnum):
    """The type of an order."""

    Market = ord("1")
    Limit = ord("2")
    Stop = ord("3")
    StopLimit = ord("4")


class TimeInForce(IntEnum):
    """The lifetime of an order."""

    Day = ord("0")
    Gtc = ord("1")
    AtTheOpen = ord("2")
    Ioc = ord("3")
    Fok = ord("4")
    Gtd = ord("6")
    AtTheClose = ord("7")


class ExecType(IntEnum):
    """The kind of an order's last change."""

    New = ord("0")
    Canceled = ord("4")
    Replaced = ord("5")
    Rejected = ord("8")
    Expired = ord("C")
    Restated = ord("D")
    Trade = ord("F")
    Triggered = ord("L")


class OrdStatus(IntEnum):
    """The state of an order; the first two are live."""

    New = ord("0")
    PartiallyFilled = ord("1")
    Filled = ord("2")
    Canceled = ord("4")
    Rejected = ord("8")
    Expired = ord("C")


class RowFlag(IntFlag):
    """Flags of a row that removes an order: see `weir.gone`."""

    TOMBSTONE = 1
    LEAVE = 2


class AnySide(IntEnum):
    """A side that may be unknown."""

    Unknown = ord("0")
    Buy = ord("1")
    Sell = ord("2")


class FeedState(IntEnum):
    """The state of a feed's channel."""

    Waiting = 1
    Live = 2
    Gap = 3
    Stale = 4
    Recovering = 5
    Ended = 6


class MarketContent(IntEnum):
    """The content of a subscription to market data."""

    Bbo = 1
    Depth = 2
    Levels = 3
    Orders = 4
    Trades = 5
    Statistics = 6
    Status = 7


class MarketFlag(IntFlag):
    """Flags of a market data message."""

    SNAPSHOT = 1
    STALE = 2
    MORE = 4


class MarketPolicy(IntEnum):
    """The policy for a subscription to market data that does not keep up."""

    Keep = 1
    Conflate = 2
    SkipAndNotify = 3
    Disconnect = 4


class OrderAction(IntEnum):
    """The kind of change of an order in a book."""

    Add = 1
    Execute = 2
    Reduce = 3
    Delete = 4
    Replace = 5
    Modify = 6
    ModifyInPlace = 7
    Clear = 8


class PhaseCause(IntEnum):
    """The cause of an instrument's trading state, where the source is a Weir node."""

    Unknown = 0
    Operator = 1
    Schedule = 2
    CallEnd = 3
    Collar = 4


class TradingState(IntEnum):
    """The trading state of an instrument."""

    Trading = 1
    Quoting = 2
    Auction = 3
    Paused = 4
    Halted = 5
    Closed = 6


Reason = IntEnum("Reason", CODES["Reason"])  # type: ignore[misc]
Reason.__doc__ = "Why a request was refused or an order ended, by the protocol's names."
