"""A place in order state, to go on from: opaque bytes that may be kept, sent and compared."""

from __future__ import annotations

import os
from pathlib import Path


class Token(bytes):
    """Where a follower is. Bytes with a text form; an empty one is the beginning."""

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
        """The token that a file holds; the beginning where there is no file."""
        try:
            return cls.of(Path(path).read_text(encoding="ascii"))
        except FileNotFoundError:
            return cls()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Keeps the token in a file: a crash leaves the old one or the new one."""
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
