"""The latest state of every order, updated by batches."""

from __future__ import annotations

import numpy as np

from ._weir import OrderBatch
from .codes import OrdStatus
from .errors import Resync
from .rows import ORDER_DTYPE

_LIVE = (int(OrdStatus.New), int(OrdStatus.PartiallyFilled))


class OrderTable:
    """A copy of order state: apply every batch, read it as an array or row by row."""

    def __init__(self, *, live: bool = False) -> None:
        """`live` keeps live orders only, for a follower with that filter."""
        self._live = live
        self._rows: dict[int, np.void] = {}

    def apply(self, batch: OrderBatch | Resync) -> None:
        """Applies a batch, or a Resync, which clears the table."""
        if isinstance(batch, Resync):
            self._rows.clear()
            return
        rows = batch.rows
        for order_id, flags, status, row in zip(
            rows["order_id"].tolist(), rows["flags"].tolist(), rows["ord_status"].tolist(), rows
        ):
            if flags or (self._live and status not in _LIVE):
                self._rows.pop(order_id, None)
            else:
                self._rows[order_id] = row

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, order_id: int) -> bool:
        return order_id in self._rows

    def __getitem__(self, order_id: int) -> np.void:
        return self._rows[order_id]

    def to_numpy(self) -> np.ndarray:
        """All orders, by order number."""
        table = np.empty(len(self._rows), dtype=ORDER_DTYPE)
        for index, order_id in enumerate(sorted(self._rows)):
            table[index] = self._rows[order_id]
        return table
