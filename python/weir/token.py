"""A position in order state to resume from: opaque bytes to store, send and compare."""

from __future__ import annotations

import os
from pathlib import Path


class Token(bytes):
    """A follower's position. Bytes with a text form; an empty one is the beginning."""

    __slots__ = ()

    @classmethod
    def of(cls, token: Token | bytes | str | None) -> Token:
        """A token from bytes, from hexadecimal text, or from None: the beginning."""
        if token is None:
            return cls()
        if isinstance(token, str):
            return cls.fromhex(token.strip())
        return cls(token)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Token:
        """Reads the token in a file; the beginning if there is no file."""
        try:
            return cls.of(Path(path).read_text(encoding="ascii"))
        except FileNotFoundError:
            return cls()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Stores the token in a file: a crash leaves the old one or the new one."""
        path = Path(path)
        beside = path.with_name(path.name + ".new")
        with open(beside, "w", encoding="ascii") as file:
            file.write(self.hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)

    def __str__(self) -> str:
        return self.hex()

    def __repr__(self) -> str:
        return f"Token({self.hex()!r})"
