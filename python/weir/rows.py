"""Rows of orders as structured arrays with the wire's offsets, so that nothing is copied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ._weir import ROW_FIELDS, ROW_LEN
from .codes import ExecType, OrdStatus, OrdType, RowFlag, Side, TimeInForce

_SIGNED = {"price"}


def _format(size: int, schema_type: str) -> str:
    if size == 16:
        return "S16"
    return f"<{'i' if schema_type in _SIGNED else 'u'}{size}"


#: The type of a row. Times are nanoseconds since 1970, prices are in the instrument's exponent.
ORDER_DTYPE = np.dtype(
    {
        "names": [name for name, _, _, _ in ROW_FIELDS],
        "formats": [_format(size, schema) for _, _, size, schema in ROW_FIELDS],
        "offsets": [offset for _, offset, _, _ in ROW_FIELDS],
        "itemsize": ROW_LEN,
    }
)

_DEFAULTS = {
    "side": Side.Buy,
    "ord_type": OrdType.Limit,
    "time_in_force": TimeInForce.Day,
    "exec_type": ExecType.New,
    "ord_status": OrdStatus.New,
}
_CODES: dict[str, type] = {
    "side": Side,
    "ord_type": OrdType,
    "time_in_force": TimeInForce,
    "exec_type": ExecType,
    "ord_status": OrdStatus,
}


def states(rows: np.ndarray) -> np.ndarray:
    """The rows with an order's current state."""
    return rows[rows["flags"] == 0]


def gone(rows: np.ndarray) -> np.ndarray:
    """The numbers of the orders that are gone or no longer match the filter."""
    return rows["order_id"][rows["flags"] != 0]


def rows_of(orders: Iterable[Mapping[str, Any]] | np.ndarray, source: int = 0) -> np.ndarray:
    """Makes rows to send, from dictionaries or an array with some of the fields.

    Missing fields have defaults: a limit order to buy, new, for the day; the source's number; an
    `order_id` made of the source and `rec`. Codes may be given by name.
    """
    if isinstance(orders, np.ndarray):
        return _from_array(orders, source)
    orders = list(orders)
    rows = _blank(len(orders))
    has_order_id = np.zeros(len(orders), dtype=bool)
    for index, order in enumerate(orders):
        for name, value in order.items():
            if name == "attributes":
                continue
            if name not in ORDER_DTYPE.fields:  # type: ignore[operator]
                raise ValueError(f"an order has no field {name!r}")
            if isinstance(value, str) and name in _CODES:
                value = _CODES[name][value]
            rows[name][index] = value
        has_order_id[index] = "order_id" in order
    return _complete(rows, source, has_order_id)


def _blank(count: int) -> np.ndarray:
    rows = np.zeros(count, dtype=ORDER_DTYPE)
    for name, code in _DEFAULTS.items():
        rows[name] = int(code)
    return rows


def _from_array(orders: np.ndarray, source: int) -> np.ndarray:
    if orders.dtype == ORDER_DTYPE:
        return np.ascontiguousarray(orders)
    if orders.dtype.names is None:
        raise ValueError("want a structured array: one field a column")
    rows = _blank(len(orders))
    for name in orders.dtype.names:
        if name not in ORDER_DTYPE.fields:  # type: ignore[operator]
            raise ValueError(f"an order has no field {name!r}")
        rows[name] = orders[name]
    has_order_id = np.full(len(rows), "order_id" in orders.dtype.names)
    return _complete(rows, source, has_order_id)


def _complete(rows: np.ndarray, source: int, has_order_id: np.ndarray) -> np.ndarray:
    rows["partition_id"] = np.where(rows["partition_id"] == 0, source, rows["partition_id"])
    made = (np.uint64(source) << np.uint64(48)) | rows["rec"]
    rows["order_id"] = np.where(has_order_id, rows["order_id"], made)
    return rows


__all__ = ["ORDER_DTYPE", "RowFlag", "gone", "rows_of", "states"]
