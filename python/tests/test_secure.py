"""TLS and signing keys: an entitled client sees its orders, any other gets a typed error."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import weir
from conftest import HANG, SOURCE, Node, trade


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """A certificate for the node as 127.0.0.1, and its authority."""
    home = tmp_path / "tls"
    command = [os.environ["WEIR_BINARY"], "certificate", "--dir", home, "--name", "127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    return home


@pytest.fixture
def secure(
    tmp_path: Path, certificates: Path, market: tuple[Path, dict[int, str]]
) -> Iterator[Node]:
    """A node with the market and TLS on all listeners."""
    data, keys = market
    shutil.copytree(data, tmp_path / "data")
    files = f'certificate = "{certificates}/node.pem"\nkey = "{certificates}/node.key"\n'
    tls = weir.Tls(ca=certificates / "node-ca.pem")
    node = Node(tmp_path, keys, config=f"[tls]\n{files}", tls=tls)
    try:
        yield node
    finally:
        node.kill()
        shutil.rmtree(tmp_path / "data")


def names(node: Node, session: int = 2, **options: object) -> list[bytes]:
    """The orders that a session sees."""
    with node.client(session, **options) as client:
        batches = client.orders(until_online=True, timeout=HANG)
        return [name for batch in batches for name in batch.rows["cl_ord_id"].tolist()]


def test_orders_and_order_state_go_over_tls(secure: Node, certificates: Path) -> None:
    trade(secure, 3)
    assert names(secure) == [b"o0", b"o1", b"o2"]
    pinned = weir.Tls(pin=certificates / "node.pem")
    assert names(secure, tls=pinned) == [b"o0", b"o1", b"o2"]


def test_an_outside_core_and_a_subscriber_come_over_tls(secure: Node) -> None:
    with secure.source() as source:
        source.send([{"rec": 1, "seq": 1, "price": 3}], resend_begin=True, resend_end=True)
        source.flush(HANG)
    with secure.client(2) as client:
        batches = client.orders(source=SOURCE, until_online=True, timeout=HANG)
        assert [rec for batch in batches for rec in batch.rows["rec"].tolist()] == [1]
    theirs = weir.Subscriptions(secure.broker, session=12, key=secure.keys[12], tls=secure.tls)
    theirs.create("inbox", "messages")
    publisher = weir.Publisher(
        secure.broker, session=2, key=secure.keys[2], epoch=1, tls=secure.tls
    )
    publisher.publish(12, b"one")
    publisher.flush(HANG)
    with theirs.subscribe("inbox") as inbox:
        message = inbox.next(HANG)
        assert message is not None and message.body == b"one"


def test_who_does_not_believe_the_node_tells_it_nothing(secure: Node, tmp_path: Path) -> None:
    others = tmp_path / "others"
    command = [os.environ["WEIR_BINARY"], "certificate", "--dir", others, "--name", "127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    for tls in (weir.Tls(ca=others / "node-ca.pem"), weir.Tls(pin=others / "node.pem"), None):
        with pytest.raises(weir.WeirError):
            names(secure, tls=tls)
    wrong_name = weir.Tls(ca=secure.tls.ca, name="weir.example") if secure.tls else None
    with pytest.raises(weir.WeirError):
        names(secure, tls=wrong_name)
    assert names(secure) == [], "it serves who does"
    with pytest.raises(ValueError, match="none.pem"):
        names(secure, tls=weir.Tls(ca=tmp_path / "none.pem"))


def test_a_session_logs_on_by_a_signature(node: Node, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    command = [os.environ["WEIR_BINARY"], "keygen", "--out", secret]
    subprocess.run(command, check=True, capture_output=True)
    public = secret.with_name("secret.pub")
    node.admin("session", "--id", 50, "--role", "supervisor", "--public-key", public)
    trade(node, 2)
    for key in (secret, secret.read_text(encoding="ascii")):
        assert names(node, 50, key=None, signing_key=key) == [b"o0", b"o1"]
    for wrong in ({"key": secret.read_text()}, {"key": None, "signing_key": "ab" * 32}):
        with pytest.raises(weir.LogonRejected):
            names(node, 50, **wrong)
    secret.chmod(0o644)
    with pytest.raises(ValueError, match="others may read it"):
        names(node, 50, key=None, signing_key=secret)
