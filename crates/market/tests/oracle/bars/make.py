"""A made-up day of trades and its bars, computed without Weir: python3 make.py writes both files.

Trades: a linear congruential generator's. Bars: each interval's trades are looked for anew in the
whole list, so that nothing is shared with a builder that goes from trade to trade. Integers only.
"""

import collections
import pathlib

HERE = pathlib.Path(__file__).parent
NOT_LAST, NOT_HIGH_LOW, NOT_VOLUME = 1, 2, 4
SECOND = 1_000_000_000

Trade = collections.namedtuple("Trade", "sequence instrument ts price size flags")


def day():
    state, ts = 20260102, 34_200 * SECOND
    price = {1: 100_000_000_000, 2: 5_250_000_000, 3: -37_630_000_000}
    for sequence in range(1, 601):
        draws = []
        for _ in range(5):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            draws.append(state >> 33)
        ts += draws[0] % (4 * SECOND)
        instrument = 1 + draws[1] % 3
        price[instrument] += (draws[2] % 21 - 10) * 10_000_000
        size = 1 + draws[3] % 900
        flags = draws[4] // 16 % 8 if draws[4] % 10 == 0 else 0
        yield Trade(sequence, instrument, ts, price[instrument], size, flags)


def counts(trade, flag):
    return not trade.flags & flag


def bar(kind, start, trades):
    last = [t.price for t in trades if counts(t, NOT_LAST)]
    span = [t.price for t in trades if counts(t, NOT_HIGH_LOW)]
    full = [t for t in trades if counts(t, NOT_VOLUME)]
    volume = sum(t.size for t in full)
    turnover = sum(t.size * t.price for t in full)
    prices = [last[0], max(span), min(span), last[-1]] if last and span else (
        [last[0] if last else None, max(span) if span else None,
         min(span) if span else None, last[-1] if last else None])
    vwap = turnover // volume if volume else None
    row = [kind, trades[0].instrument, start, trades[0].ts, trades[-1].ts, trades[0].sequence,
           trades[-1].sequence, *prices, volume, turnover, vwap, len(full)]
    return ["-" if value is None else str(value) for value in row]


def by_time(name, interval, trades):
    starts = sorted({t.ts // interval * interval for t in trades})
    for start in starts:
        inside = [t for t in trades if start <= t.ts < start + interval]
        yield bar(name, start, inside)


def by_amount(name, most, amount, trades):
    rest = trades
    while rest:
        total, end = 0, 0
        for end, trade in enumerate(rest, 1):
            total += amount(trade) if counts(trade, NOT_VOLUME) else 0
            if total >= most:
                break
        yield bar(name, rest[0].ts, rest[:end])
        rest = rest[end:]


def main():
    trades = list(day())
    with open(HERE / "trades.txt", "w") as out:
        out.write("# sequence instrument ts_ns price_e9 size flags; made by make.py\n")
        for trade in trades:
            out.write(" ".join(map(str, trade)) + "\n")
    rows = []
    for instrument in (1, 2, 3):
        own = [t for t in trades if t.instrument == instrument and t.flags != 7]
        rows += by_time("time-60s", 60 * SECOND, own)
        rows += by_time("time-7s", 7 * SECOND, own)
        rows += by_amount("ticks-10", 10, lambda trade: 1, own)
        rows += by_amount("volume-5000", 5000, lambda trade: trade.size, own)
    with open(HERE / "bars.txt", "w") as out:
        out.write("# kind instrument start ts_first ts_last first_sequence last_sequence"
                  " open high low close volume turnover vwap trade_count; made by make.py\n")
        for row in rows:
            out.write(" ".join(row) + "\n")


main()
