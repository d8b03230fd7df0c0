"""The client of Weir, an exchange platform.

Order state by token, market data, durable subscriptions, the feeding of an outside core's orders,
order entry. The Rust client underneath does the work; this package gives it Python's forms.

    import weir

    with weir.Client("127.0.0.1:7001", session=11, key="...") as client:
        for batch in client.orders(live=True):
            print(len(batch), batch.rows["order_id"], batch.token)
"""

from ._weir import BATCH_ROWS_MAX, OrderBatch
from ._weir import VERSION as __version__
from .client import Client, Orders
from .codes import (
    AnySide,
    ExecType,
    FeedState,
    MarketContent,
    MarketFlag,
    MarketPolicy,
    OrderAction,
    OrdStatus,
    OrdType,
    PhaseCause,
    Reason,
    RowFlag,
    Side,
    TimeInForce,
    TradingState,
)
from .endpoint import Tls
from .errors import (
    Closed,
    ConnectionLost,
    LoggedOut,
    LogonRejected,
    OtherHistory,
    ProtocolError,
    Refused,
    Resync,
    ResyncEpoch,
    ResyncFilter,
    ResyncFloor,
    ResyncToken,
    SourceRefused,
    SubscriptionEnded,
    Timeout,
    TooManyUnanswered,
    WeirError,
    WrongNode,
)
from .market import MARKET_DTYPES, MARKET_KINDS, Instrument, Market, MarketBatch
from .rows import ORDER_DTYPE, gone, rows_of, states
from .source import Acknowledged, Opened, SentAgain, Source
from .subscription import Message, Publisher, Subscription, Subscriptions
from .table import OrderTable
from .token import Token

__all__ = [
    "BATCH_ROWS_MAX",
    "MARKET_DTYPES",
    "MARKET_KINDS",
    "ORDER_DTYPE",
    "Acknowledged",
    "AnySide",
    "Client",
    "Closed",
    "ConnectionLost",
    "ExecType",
    "FeedState",
    "Instrument",
    "LoggedOut",
    "LogonRejected",
    "Market",
    "MarketBatch",
    "MarketContent",
    "MarketFlag",
    "MarketPolicy",
    "Message",
    "Opened",
    "OrdStatus",
    "OrdType",
    "OrderAction",
    "OrderBatch",
    "OrderTable",
    "Orders",
    "OtherHistory",
    "PhaseCause",
    "ProtocolError",
    "Publisher",
    "Reason",
    "Refused",
    "Resync",
    "ResyncEpoch",
    "ResyncFilter",
    "ResyncFloor",
    "ResyncToken",
    "RowFlag",
    "SentAgain",
    "Side",
    "Source",
    "SourceRefused",
    "Subscription",
    "SubscriptionEnded",
    "Subscriptions",
    "TimeInForce",
    "Timeout",
    "Tls",
    "Token",
    "TooManyUnanswered",
    "TradingState",
    "WeirError",
    "WrongNode",
    "__version__",
    "gone",
    "rows_of",
    "states",
]
