"""The endpoint of a connection: address, session, key and TLS."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Tls:
    """The trust in a node that uses TLS: by an authority, or by its exact certificate."""

    ca: str | os.PathLike[str] | None = None
    pin: str | os.PathLike[str] | None = None
    name: str | None = None
    certificate: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if (self.ca is None) == (self.pin is None):
            raise ValueError("TLS needs one of `ca` and `pin`: whom to believe")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("`certificate` and `key` belong together")


class Endpoint:
    """Address, session, key and TLS, in the form that the extension expects."""

    def __init__(
        self,
        address: str,
        session: int,
        key: str | bytes | None,
        signing_key: str | bytes | os.PathLike[str] | None,
        tls: Tls | None,
        heartbeat: float,
    ) -> None:
        if (key is None) == (signing_key is None):
            raise ValueError("want `key` or `signing_key`, and not both")
        self.address = address
        self.session = session
        self.key = _key_bytes(key if key is not None else _signing_key(signing_key))
        self.is_signing = signing_key is not None
        self.heartbeat_ms = max(1, int(heartbeat * 1000))
        self.tls_ca = tls and tls.ca
        self.tls_pin = tls and tls.pin
        self.tls_name = tls and tls.name
        self.tls_certificate = tls and tls.certificate
        self.tls_key = tls and tls.key

    def at(self, address: str) -> Endpoint:
        """The same session at another listener."""
        other = copy.copy(self)
        other.address = address
        return other

    def __repr__(self) -> str:
        return f"<Endpoint {self.address} session {self.session}>"


def _key_bytes(key: str | bytes) -> bytes:
    """Returns the 32 bytes of a key; errors do not contain it."""
    try:
        key = bytes.fromhex(key.strip()) if isinstance(key, str) else bytes(key)
    except ValueError:
        raise ValueError("a key is hexadecimal") from None
    if len(key) != 32:
        raise ValueError("a key has 32 bytes, 64 hexadecimal digits")
    return key


def _signing_key(key: str | bytes | os.PathLike[str] | None) -> str | bytes:
    """Returns a secret key, or reads one from a `weir keygen` file readable by its owner only."""
    if not isinstance(key, os.PathLike):
        return key or b""
    path = Path(key)
    if path.stat().st_mode & 0o077:
        raise ValueError(f"secret key {path}: others may read it; chmod 600")
    return path.read_text(encoding="ascii")
