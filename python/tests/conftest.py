"""A real node for the tests: `weir serve` on ports that the system chooses, in its own directory.

WEIR_BINARY names the program; `./x test` builds it. No wait has a fixed length: each ends with the
awaited event, and HANG limits a hang.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import weir

# Shells start background jobs with SIGINT ignored, and their children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

HANG = 60.0
OPERATOR_KEY = "01" * 32
SOURCE = 40


class Node:
    """A node that can be killed and started again on the same ports."""

    def __init__(
        self, home: Path, keys: dict[int, str], *, config: str = "", tls: weir.Tls | None = None
    ) -> None:
        self.home = home
        self.keys = keys
        self.tls = tls
        # Small segments: a node is made for each test.
        (home / "weir.toml").write_text(
            "[log]\nsegment_bytes = 1048576\n[events]\nsegment_bytes = 1048576\n"
            '[ingest]\nlisten = "127.0.0.1:0"\nsnapshot_every_bytes = 20000\n'
            f"[[ingest.source]]\nid = {SOURCE}\nsession = 30\ndurability = \"os\"\n"
            '[subscriptions]\nlisten = "127.0.0.1:0"\n' + config
        )
        self.listen = "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        """Starts the node and waits until it is ready."""
        command = [os.environ["WEIR_BINARY"], "serve", "--durability", "os"]
        command += ["--listen", self.listen, "--http", "127.0.0.1:0"]
        command += ["--config", self.home / "weir.toml", "--dir", self.home / "data"]
        errors = open(self.home / "stderr", "wb")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "WEIR_BOOTSTRAP_KEY": OPERATOR_KEY},
        )
        errors.close()
        assert self.process.stdout is not None
        said = self.process.stdout.readline().decode()
        places = dict(word.split("=", 1) for word in said.split() if "=" in word)
        assert "order-entry" in places, (said, (self.home / "stderr").read_text())
        self.address, self.http = places["order-entry"], places["http"]
        self.listen = self.address

    def kill(self) -> None:
        """Ends the node as `kill -9` does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def status(self) -> dict[str, Any]:
        """Returns the status page."""
        with urllib.request.urlopen(f"http://{self.http}/status", timeout=HANG) as page:
            return json.load(page)

    @property
    def ingest(self) -> str:
        return self.status()["ingest"]["address"]

    @property
    def broker(self) -> str:
        return self.status()["subscriptions"]["address"]

    def command(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Runs `weir WORDS` against the node as its operator."""
        login = ["--node", self.address, "--http", self.http]
        return subprocess.run(
            [os.environ["WEIR_BINARY"], *map(str, words[:1]), *login, *map(str, words[1:])],
            env={**os.environ, "WEIR_API_KEY": OPERATOR_KEY},
            capture_output=True,
            text=True,
            timeout=HANG,
            check=True,
        )

    def admin(self, *words: object) -> dict[str, Any]:
        """Runs `weir admin WORDS` and returns its output."""
        return json.loads(self.command("admin", "--json", *words).stdout)

    def define_session(self, number: int, role: str, firm: int = 0) -> None:
        """Defines a session and keeps its key."""
        said = self.admin("session", "--id", number, "--role", role, "--firm", firm)
        self.keys[number] = said["api_key"]

    def client(self, session: int, **options: Any) -> weir.Client:
        """A client of a session."""
        options = {"key": self.keys.get(session), "tls": self.tls} | options
        return weir.Client(self.address, session=session, **options)

    def source(self, epoch: int = 1, **options: Any) -> weir.Source:
        """A writer of the outside core's orders."""
        options = {"key": self.keys[30], "tls": self.tls} | options
        return weir.Source(self.ingest, session=30, source=SOURCE, epoch=epoch, **options)

    def token(self, at: weir.Token) -> dict[str, Any]:
        """Decodes a token."""
        command = [os.environ["WEIR_BINARY"], "token", "decode", str(at), "--json", "--dir"]
        done = subprocess.run(
            [*command, str(self.home / "data")], capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)


def open_market(node: Node) -> None:
    """One instrument, two traders with a firm and an account each, a supervisor, a source."""
    node.admin("instrument", "--id", 1, "--symbol", "WEIR1")
    for trader in (11, 12):
        node.admin("firm", "--id", trader, "--name", f"FIRM{trader}")
        node.define_session(trader, "trader", trader)
        node.admin("account", "--id", trader, "--firm", trader, "--unlimited")
        node.admin("deposit", "--account", trader, "--cash", 1, "--transfer-id", 1)
    node.define_session(2, "supervisor")
    node.define_session(3, "supervisor")
    node.define_session(30, "source")


@pytest.fixture(scope="session")
def market(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, str]]:
    """The directory of a stopped node with a market, and the keys of its sessions."""
    node = Node(tmp_path_factory.mktemp("market"), {1: OPERATOR_KEY})
    try:
        open_market(node)
        node.process.terminate()
        node.process.wait(HANG)
    finally:
        node.kill()
    return node.home / "data", node.keys


@pytest.fixture
def node(tmp_path: Path, market: tuple[Path, dict[int, str]]) -> Iterator[Node]:
    """A fresh node with that market."""
    data, keys = market
    shutil.copytree(data, tmp_path / "data")
    node = Node(tmp_path, keys)
    try:
        yield node
    finally:
        node.kill()
        shutil.rmtree(tmp_path / "data")


def until(what: str, look: Callable[[], Any]) -> Any:
    """Polls until there is a result."""
    begun = time.monotonic()
    while not (found := look()):
        assert time.monotonic() - begun < HANG, f"{what} did not come"
        time.sleep(0.002)
    return found


def trade(node: Node, count: int, first: int = 0) -> None:
    """Enters `count` buys of firm 11 that rest, each at its own price."""
    with node.client(11) as client:
        for number in range(first, first + count):
            client.new_order(
                f"o{number}",
                instrument=1,
                account=11,
                side=weir.Side.Buy,
                qty=5,
                price=100 + number,
            )
        for _ in range(count):
            event = client.event(HANG)
            assert event is not None and event["type"] == "ExecutionReport", event
