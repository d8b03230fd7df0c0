"""Prints best bids and offers and trades of a market data gateway as they come.

    python quotes.py GATEWAY SESSION KEY [PATTERN] [INTERVAL_SECONDS]

GATEWAY is the gateway's listener for subscribers, by default 127.0.0.1:7003 for `weir market
serve`; the pattern is a symbol, a symbol's prefix and a star, or a star.
"""

import sys

import weir


def main() -> None:
    address, session, key, *rest = sys.argv[1:]
    pattern = rest[0] if rest else "*"
    interval = float(rest[1]) if len(rest) > 1 else 0.0
    options = {"contents": ["bbo", "trades"], "patterns": pattern, "interval": interval}
    with weir.Market.open(address, session=int(session), key=key, **options) as market:
        for batch in market:
            for quote in batch.quotes:
                id = quote["instrument_id"]
                bid, ask = (market.decimal(id, quote[side]) for side in ("bid_px", "ask_px"))
                age = (int(quote["sending_time"]) - int(quote["receive_time"])) / 1e3
                print(
                    f"{market.symbol(id):8} {quote['bid_size']} x {bid:f} / {ask:f} x"
                    f" {quote['ask_size']}, {quote['change_count']} merged, {age:.1f} µs old"
                    f"{' STALE' if quote['flags'] & weir.MarketFlag.STALE else ''}"
                )
            for trade in batch.trades:
                id = trade["instrument_id"]
                price = market.decimal(id, trade["last_px"])
                print(f"{market.symbol(id):8} trade {trade['last_qty']} at {price:f}")
            for gap in batch.gaps:
                print(f"{market.symbol(gap['instrument_id'])}: {gap['lost_count']} not told")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
