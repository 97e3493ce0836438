"""Installation of Spark from an index that sends something else than the packages, or nothing."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gateway.standalone.on_demand.spark_packages import (
    MODULES,
    PARTIAL,
    Environment,
    InstallProgress,
    install,
)
from tests.unit.gateway.standalone.on_demand.test_spark_packages import environment, index

__all__ = ["environment", "index"]

Answer = Callable[[BaseHTTPRequestHandler, bytes], None]


def whole(request: BaseHTTPRequestHandler, content: bytes) -> None:
    send(request, 200, content, len(content))


def cut_off(request: BaseHTTPRequestHandler, content: bytes) -> None:
    send(request, 200, content[: len(content) // 2], len(content))


def shorter(request: BaseHTTPRequestHandler, content: bytes) -> None:
    whole(request, content[: len(content) // 2])


def garbage(request: BaseHTTPRequestHandler, content: bytes) -> None:
    whole(request, b"\x1b]0;owned\x07<html>sign in</html>")


def failing(request: BaseHTTPRequestHandler, content: bytes) -> None:
    request.send_response(500, "\x1b[31mno\x1b[2J")
    request.end_headers()


def silent(request: BaseHTTPRequestHandler, content: bytes) -> None:
    request.rfile.read(1)  # the client gives up first


def send(request: BaseHTTPRequestHandler, status: int, content: bytes, length: int) -> None:
    request.send_response(status)
    request.send_header("Content-Length", str(length))
    request.end_headers()
    request.wfile.write(content)


@pytest.fixture
def serve(
    index: Path, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Answer]]:
    """Answers to requests for packages: the last one of the list counts. Pages that list them are always right."""
    answers: list[Answer] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rstrip("/").rpartition("/")[2]
            if name.endswith(".whl"):
                answers[-1](self, (index / name).read_bytes())
            elif wheels := [path.name for path in index.glob(f"{name}-*.whl")]:
                page = "".join(f'<a href="/files/{wheel}">{wheel}</a>' for wheel in wheels)
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(page.encode())
            else:
                self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.delenv("UV_FIND_LINKS")
    monkeypatch.delenv("UV_NO_INDEX")
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://127.0.0.1:{server.server_port}/simple")
    monkeypatch.setenv("UV_HTTP_TIMEOUT", "1")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    yield answers
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("answer", [cut_off, shorter, garbage, failing, silent])
def test_an_index_that_sends_no_package_ends_in_one_line_and_the_next_call_installs(
    answer: Answer, environment: Environment, serve: list[Answer]
) -> None:
    serve.append(answer)
    reports: list[str] = []
    progress = InstallProgress(None, reports.append)
    problem = install(environment, progress, installed=lambda: False)
    assert problem.startswith("the installation failed (exit ")
    assert problem.endswith("Trying again resumes it")
    assert problem.isprintable()
    assert (environment.prefix / PARTIAL).exists()
    serve.append(whole)
    assert install(environment, progress, installed=lambda: False) == ""
    assert not (environment.prefix / PARTIAL).exists()
    (packages,) = environment.prefix.glob("lib/python*/site-packages")
    assert {path.name for path in packages.iterdir()} >= set(MODULES)


def test_the_output_of_an_installer_cannot_change_the_terminal(
    environment: Environment, tmp_path: Path
) -> None:
    uv = tmp_path / "bin" / "uv"
    uv.unlink()
    uv.write_text("#!/bin/sh\nprintf 'error: \\033]0;owned\\007' >&2\nexit 1\n")
    uv.chmod(0o755)
    problem = install(environment, InstallProgress(None, print), installed=lambda: False)
    assert problem.startswith("the installation failed (exit 1): error: ")
    assert problem.isprintable()
