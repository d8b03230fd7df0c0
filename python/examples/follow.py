"""Follows order state into a table and prints its changes.

    python follow.py 127.0.0.1:7001 SESSION KEY [TOKEN_FILE]

With a token file it resumes at its position: the token is stored after the rows are printed, so
that a crash repeats rows and skips none.
"""

import sys

import weir


def main() -> None:
    address, session, key, *rest = sys.argv[1:]
    kept = rest[0] if rest else None
    token = weir.Token.load(kept) if kept else None
    table = weir.OrderTable(live=True)
    with weir.Client(address, session=int(session), key=key) as client:
        for batch in client.orders(live=True, token=token, resync="return"):
            table.apply(batch)
            if isinstance(batch, weir.Resync):
                print(f"from the beginning: {batch.reason}")
            else:
                late = (batch.received_time - batch.oldest_created) / 1e6 if len(batch) else 0.0
                print(
                    f"{len(batch):5} rows, {batch.merged:4} merged, {late:8.1f} ms late,"
                    f" {len(table):6} live{', online' if batch.online else ''}"
                )
            if kept:
                weir.Token(batch.token).save(kept)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
