#!/usr/bin/env python3
"""Writes how many messages of each type iex-parser reads in a capture of TOPS: tops_counts.txt.

usage: tops_counts.py CAPTURE OUT

CAPTURE is TOPS16.pcapng.gz of the sample data, OUT the folder for the result. Needs the package
iex-parser (1.7.0).
"""

import collections
import pathlib
import sys

from iex_parser import TOPS_1_6, Parser


def main():
    counts = collections.Counter()
    with Parser(sys.argv[1], TOPS_1_6) as messages:
        for message in messages:
            counts[message["type"]] += 1
    lines = [f"{name}\t{count}" for name, count in sorted(counts.items())]
    (pathlib.Path(sys.argv[2]) / "tops_counts.txt").write_text("\n".join(lines) + "\n")


main()
