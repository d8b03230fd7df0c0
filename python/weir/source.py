"""The feeding of an outside core's orders into a delivery store."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from types import SimpleNamespace, TracebackType
from typing import Any

import numpy as np

from . import _weir
from .endpoint import Endpoint, Tls
from .errors import SourceRefused, Timeout
from .rows import rows_of

_RESEND_BEGIN, _RESEND_END = 1, 2


@dataclass(frozen=True)
class Opened:
    """The store has opened the source: rows must be above `head` (seq, rec).

    `next` is the number of the next batch expected, `level` the durability level of
    acknowledgements.
    """

    head: tuple[int, int]
    next: int
    level: str


@dataclass(frozen=True)
class Acknowledged:
    """All batches up to this one are applied."""

    batch_no: int


@dataclass(frozen=True)
class SentAgain:
    """The store requested batches again, from this one on."""

    batch_no: int


class Source:
    """The writer of one source: numbered batches, sent again until they are acknowledged.

    It connects with the first call that sends, and reconnects automatically after a loss. It works
    only within its calls: call `poll` or `flush` often enough for the heartbeat.
    """

    def __init__(
        self,
        address: str,
        *,
        session: int,
        source: int,
        epoch: int,
        key: str | bytes | None = None,
        signing_key: str | bytes | os.PathLike[str] | None = None,
        full_resend: bool = True,
        valid_to: tuple[int, int, int] | None = None,
        unacknowledged_max: int = 16 << 20,
        tls: Tls | None = None,
        heartbeat: float = 5.0,
    ) -> None:
        """`epoch` is above every earlier epoch of the source; `valid_to` (epoch, seq, rec) is the
        last earlier place that is still valid; `unacknowledged_max` is in bytes."""
        endpoint = Endpoint(address, session, key, signing_key, tls, heartbeat)
        self._source, self._max = source, unacknowledged_max
        settings = self._settings(epoch, full_resend, valid_to)
        self._writer = _weir.Writer(endpoint, settings)
        #: The last batch that the store has acknowledged.
        self.acknowledged = 0

    def _settings(
        self, epoch: int, full_resend: bool, valid_to: tuple[int, int, int] | None
    ) -> SimpleNamespace:
        return SimpleNamespace(
            source=self._source,
            epoch=epoch,
            full_resend=full_resend,
            valid_to=valid_to,
            unacknowledged_max=self._max,
        )

    def send(
        self,
        orders: Iterable[Mapping[str, Any]] | np.ndarray,
        *,
        attributes: Sequence[bytes] | None = None,
        resend_begin: bool = False,
        resend_end: bool = False,
        timeout: float | None = 30.0,
    ) -> int:
        """Queues a batch of at most BATCH_ROWS_MAX orders in the order of (seq, rec).

        Orders are dictionaries (see `weir.rows_of`; `attributes` may be a key of each) or a
        structured array. If too much is unacknowledged it waits up to `timeout` seconds for room.
        Returns the batch's number.
        """
        if not isinstance(orders, np.ndarray):
            orders = list(orders)
            if attributes is None and any("attributes" in order for order in orders):
                attributes = [bytes(order.get("attributes", b"")) for order in orders]
        rows = rows_of(orders, self._source)
        flags = _RESEND_BEGIN * resend_begin | _RESEND_END * resend_end
        beside = [bytes(one) for one in attributes or ()]
        begun = monotonic()
        while (batch_no := self._writer.push(rows.tobytes(), beside, flags)) is None:
            if timeout is not None and monotonic() - begun > timeout:
                raise Timeout("the store does not take batches")
            self.poll(0.05)
        return batch_no

    def poll(self, timeout: float = 0.0) -> list[Opened | Acknowledged | SentAgain]:
        """Sends batches and waits up to `timeout` seconds for events; returns them.

        Raises SourceRefused when the store refuses: the core decides what to do.
        """
        said: list[Opened | Acknowledged | SentAgain] = []
        refused: dict[str, Any] | None = None
        for event in self._writer.poll(timeout):
            kind = event["type"]
            if kind == "Opened":
                said.append(Opened(event["head"], event["next"], event["level"]))
                self.acknowledged = event["next"] - 1
            elif kind == "Acknowledged":
                said.append(Acknowledged(event["batch_no"]))
                self.acknowledged = max(self.acknowledged, event["batch_no"])
            elif kind == "SentAgain":
                said.append(SentAgain(event["batch_no"]))
            elif kind == "Refused":
                refused = event
        if refused is not None:
            message = f"the store refuses: {refused['reason']}"
            raise SourceRefused(message, refused["reason"], refused)
        return said

    def open(self, timeout: float = 10.0) -> Opened:
        """Waits until the source is open; returns the store's answer."""
        begun = monotonic()
        while True:
            for event in self.poll(0.1):
                if isinstance(event, Opened):
                    return event
            if monotonic() - begun > timeout:
                raise Timeout(f"the source is not open: {self.take_failure()}")

    def flush(self, timeout: float | None = None) -> int:
        """Waits until every batch is acknowledged; returns the last one's number."""
        begun = monotonic()
        while self.unacknowledged:
            if timeout is not None and monotonic() - begun > timeout:
                raise Timeout(f"{self.unacknowledged} batches are without acknowledgement")
            self.poll(0.1)
        return self.acknowledged

    def begin(
        self,
        epoch: int,
        *,
        full_resend: bool = True,
        valid_to: tuple[int, int, int] | None = None,
    ) -> None:
        """Starts another epoch; batches of the one before are discarded."""
        self._writer.begin(self._settings(epoch, full_resend, valid_to))
        self.acknowledged = 0

    def open_again(self) -> None:
        """Repeats the request to open the source, after a refusal whose cause is gone."""
        self._writer.open_again()

    @property
    def unacknowledged(self) -> int:
        """The number of unacknowledged batches."""
        return self._writer.unacknowledged

    def take_failure(self) -> Exception | None:
        """The error that ended the last connection, returned once; None if there is none."""
        return self._writer.take_failure()

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.flush(30.0)
