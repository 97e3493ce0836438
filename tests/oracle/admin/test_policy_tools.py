"""pulsar-admin 4.0.8 accepts the commands that the console shows for policies, and sends the recorded requests."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.ledgers_java import LEAN, SOURCE, compile_driver

GOLDEN = Path(__file__).parents[2] / "golden" / "policies" / "tool_calls.jsonl"
TOOL = "pulsar-admin "


@contextmanager
def recording_server() -> Iterator[tuple[str, list[list[Any]]]]:
    """Yield the URL of a server that answers 204, and the requests that it got: method, target, body if any."""
    requests: list[list[Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def record(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            requests.append([self.command, self.path, *([json.loads(body)] if body else [])])
            self.send_response(204)
            self.end_headers()

        do_DELETE = do_POST = do_PUT = record

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", requests
        finally:
            server.shutdown()


@pytest.mark.timeout(600)
def test_the_tool_accepts_the_commands_and_sends_the_recorded_requests(
    apache_at_hand: None, tmp_path: Path
) -> None:
    groups = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    cases = [case for group in groups for case in group["cases"] if case["request"] is not None]
    commands = [case["pulsarAdmin"].removeprefix(TOOL) for case in cases]
    with recording_server() as (url, requests):
        classes = compile_driver(tmp_path, SOURCE / "PolicyToolDriver.java")
        run = subprocess.run(
            ["java", *LEAN.split(), "-cp", classes, "PolicyToolDriver", url],
            input="\n".join(commands) + "\n",
            capture_output=True,
            text=True,
            timeout=540,  # two minutes were too short beside other loads
            check=True,
        )
    refused = [c for c, ok in zip(commands, run.stdout.split(), strict=True) if ok != "true"]
    assert not refused
    assert [*map(_normal, requests)] == [_normal(case["request"]) for case in cases]


def _normal(request: list[Any]) -> list[Any]:
    """Return the request with a list in its body sorted: the tool keeps types of subscriptions in a set."""
    return [sorted(part) if isinstance(part, list) else part for part in request]
