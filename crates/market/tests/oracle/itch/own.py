#!/usr/bin/env python3
"""Writes what the Python package `itchfeed` says of the day that Weir publishes; a test compares.

    own.py

Reads `own_day.itch` beside it, in which each message stands behind its length, and writes
`own.txt` as `make.py` writes `files.txt`: how many messages of each type there are, and a digest
of all their fields. Needs the Python package `itchfeed` 1.6.4.
"""

from pathlib import Path

from itch.messages import messages as message_types

HERE = Path(__file__).parent


def quoted(text):
    return '"' + text.decode("ascii") + '"'


def line(message):
    """The message's fields in the order in which the class itself unpacks them."""
    skip = {"message_type", "timestamp", "stock_locate", "tracking_number", "price_precision"}
    values = [v for k, v in vars(message).items() if k not in skip]
    head = [message.stock_locate, message.tracking_number, message.timestamp]
    fields = [quoted(v) if isinstance(v, bytes) else str(v) for v in head + values]
    return " ".join([message.message_type.decode()] + fields)


def main():
    data = (HERE / "own_day.itch").read_bytes()
    counts, digest, at = {}, 0xCBF29CE484222325, 0
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        body = data[at + 2 : end]
        kind = body[:1].decode()
        counts[kind] = counts.get(kind, 0) + 1
        for byte in (line(message_types[body[:1]](body)) + "\n").encode("ascii"):
            digest = ((digest ^ byte) * 0x100000001B3) % 2**64
        at = end
    mix = " ".join(f"{kind}:{count}" for kind, count in sorted(counts.items()))
    text = f"own_day.itch {sum(counts.values())} {digest:016x} {mix}\n"
    (HERE / "own.txt").write_text(text, encoding="ascii")


main()
