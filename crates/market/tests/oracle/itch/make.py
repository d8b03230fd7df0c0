#!/usr/bin/env python3
"""Writes what independent decoders say of ITCH 5.0's messages; the tests of `tests/itch` compare.

    make.py DATA DISSECTOR.lua

DATA is the folder that `WEIR_DATA` names. Needs `tshark` 4.0 with the dissector
`Nasdaq_NsmEquities_TotalView_Itch_v5_0_2017_Dissector.lua` of the Open Markets Initiative's
`wireshark-lua` (commit e6909f3), and the Python package `itchfeed` 1.6.4. The files it writes are
kept beside it, so that nothing of this is needed to run the tests.

* `frames.txt`: each message of each real frame, by tshark.
* `files.txt`: for each file of a day's messages how many of each type there are, and a digest of
  all their fields, by itchfeed.
* `made.txt`: made-up messages of every type, their bytes and fields both by itchfeed.

A message is a line: type, then the fields in the order of their bytes, numbers in decimal (prices
as they are sent), text in quotes with its padding.
"""

import os
import random
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from decimal import Decimal
from pathlib import Path

from itch.messages import messages as message_types
from itch.parser import MessageParser

HERE = Path(__file__).parent
NUMBERS = {
    "stocklocate", "locatecode", "trackingnumber", "timestamp", "orderreferencenumber",
    "shares", "executedshares", "matchnumber", "canceledshares", "originalorderreferencenumber",
    "neworderreferencenumber", "crossshares", "pairedshares", "imbalanceshares",
    "auctioncollarextension", "roundlotsize", "etpleveragefactor", "ipoquotationreleasetime",
}
PRICES = {
    "price", "executionprice", "crossprice", "farprice", "nearprice", "currentreferenceprice",
    "ipoprice", "auctioncollarreferenceprice", "upperauctioncollarprice", "lowerauctioncollarprice",
}


def quoted(text):
    return '"' + text.decode("ascii") + '"'


def tshark_field(field):
    name = field.get("name").rsplit(".", 1)[1]
    if name in NUMBERS:
        return str(int(field.get("show")))
    if name in PRICES:
        return str(int(round(Decimal(field.get("show")) * 10000)))
    return quoted(bytes.fromhex(field.get("value")))


def children(element, name):
    return [e for e in element if (e.get("name") or "").rsplit(".", 1)[-1] == name]


def frame_lines(capture, dissector):
    """The messages of a capture: each with its sequence number before it."""
    command = ["tshark", "-X", f"lua_script:{dissector}", "-r", str(capture), "-T", "pdml"]
    out = subprocess.run(command, check=True, capture_output=True).stdout
    for packet in ElementTree.fromstring(out).iter("packet"):
        for proto in packet.iter("proto"):
            if not proto.get("name").startswith("omi."):
                continue
            for header in children(proto, "packetheader"):
                sequence = int(children(header, "sequencenumber")[0].get("show"))
            for index, message in enumerate(children(proto, "message")):
                header = children(message, "messageheader")[0]
                kind = children(header, "messagetype")[0].get("show")
                body = message[-1]
                fields = " ".join(tshark_field(field) for field in body)
                yield f"{sequence + index} {kind} {fields}"


def write_frames(data, dissector):
    with open(HERE / "frames.txt", "w", encoding="ascii") as out:
        for folder in sorted((data / "omi" / "Nasdaq").glob("*Equities.TotalView.Itch.v5.0*")):
            for capture in sorted(folder.glob("*.pcap")):
                print(f"= {capture.relative_to(data)}", file=out)
                for line in frame_lines(capture, dissector):
                    print(line, file=out)


def itchfeed_line(message):
    """The message's fields in the order in which the class itself unpacks them."""
    skip = {"message_type", "timestamp", "stock_locate", "tracking_number", "price_precision"}
    kind = message.message_type.decode()
    values = [v for k, v in vars(message).items() if k not in skip]
    head = [message.stock_locate, message.tracking_number, message.timestamp]
    fields = [quoted(v) if isinstance(v, bytes) else str(v) for v in head + values]
    return " ".join([kind] + fields)


def fnv(digest, text):
    for byte in text.encode("ascii"):
        digest = ((digest ^ byte) * 0x100000001B3) % 2**64
    return digest


def write_files(data):
    with open(HERE / "files.txt", "w", encoding="ascii") as out:
        for path in sorted((data / "itch").iterdir()):
            counts, digest = {}, 0xCBF29CE484222325
            with open(path, "rb") as file:
                for message in MessageParser().parse_file(file):
                    kind = message.message_type.decode()
                    counts[kind] = counts.get(kind, 0) + 1
                    digest = fnv(digest, itchfeed_line(message) + "\n")
            mix = " ".join(f"{kind}:{count}" for kind, count in sorted(counts.items()))
            total = sum(counts.values())
            print(f"{path.relative_to(data)} {total} {digest:016x} {mix}", file=out)


def made_up(kind, layout, draw):
    """Arbitrary bytes in itchfeed's layout: letters where it has text."""
    body = b""
    for code in layout:
        if code == "s" or code == "c":
            body += bytes(draw.choice(b"ABCNOSY 123") for _ in range(1))
        else:
            size = {"H": 2, "I": 4, "Q": 8}[code]
            body += draw.getrandbits(8 * size).to_bytes(size, "big")
    return message_types[kind](kind + body)


def unrolled(layout):
    """`!H8sI` as `H`, eight times `s`, `I`."""
    count = ""
    for code in layout[1:]:
        if code.isdigit():
            count += code
        else:
            yield from code * (int(count or 1) if code == "s" else 1)
            count = ""


def write_made():
    draw = random.Random(50)
    with open(HERE / "made.txt", "w", encoding="ascii") as out:
        for kind, cls in message_types.items():
            for _ in range(3):
                message = made_up(kind, list(unrolled(cls.message_format)), draw)
                print(f"{message.to_bytes().hex()} {itchfeed_line(message)}", file=out)


def main():
    data, dissector = Path(sys.argv[1]), os.path.abspath(sys.argv[2])
    write_frames(data, dissector)
    write_files(data)
    write_made()


main()
