"""Programs of small cases in several languages: started once, given one case at a time, each answer bounded in time."""

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.bench.contenders import apache_missing
from tests.oracle.ledgers_java import LEAN, compile_driver
from tests.oracle.ledgers_java import SOURCE as JAVA_SOURCES
from tests.support.instance import ROOT

CASE_S_MAX = 60.0
BUILD_S_MAX = 280.0
"""Bound of a build: with an empty cache Go compiles all dependencies of the client, which takes a minute of CPU."""
HERE = Path(__file__).parent
LANGUAGES = ("python", "java", "go")
OUTCOMES: dict[str, dict[str, Any]] = json.loads((HERE / "outcomes.json").read_text())
"""Observations of each program with Apache Pulsar 4.0.8, by language and case."""
Rest = Callable[[str, str, Any], int]
"""Method, path and body of a call; its status."""
RETENTION = {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100}
NAMESPACES: dict[str, tuple[str, str, Any]] = {
    # Retention keeps messages without a subscription for the programs that read them later.
    "schemas": ("POST", "retention", RETENTION),
    "schemas-enforced": ("POST", "schemaValidationEnforced", True),
    "schemas-fixed": ("POST", "isAllowAutoUpdateSchema", False),
    "schemas-backward": ("PUT", "schemaCompatibilityStrategy", "BACKWARD"),
    "schemas-forward": ("PUT", "schemaCompatibilityStrategy", "FORWARD"),
    "schemas-always": ("PUT", "schemaCompatibilityStrategy", "ALWAYS_COMPATIBLE"),
}
PARTITIONED = ("java-partitioned", "go-partitioned", "python-partitioned")


def prepare(rest: Rest, run: str) -> None:
    """Create the namespaces and partitioned topics of the cases; the names of all topics begin with ``run``."""
    for name, (method, policy, value) in NAMESPACES.items():
        assert rest("PUT", f"/admin/v2/namespaces/public/{name}", None) in (204, 409)
        assert rest(method, f"/admin/v2/namespaces/public/{name}/{policy}", value) == 204
    for name in PARTITIONED:
        path = f"/admin/v2/persistent/public/schemas/{run}{name}/partitions"
        assert rest("PUT", path, 3) == 204


def write_keys(folder: Path) -> Path:
    """Write ``public.pem`` and ``private.pem`` into ``folder``, in a format that all clients read."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,  # Go reads no other
        serialization.NoEncryption(),
    )
    (folder / "public.pem").write_bytes(public)
    (folder / "private.pem").write_bytes(private)
    return folder


class UnavailableError(Exception):
    """The tools of a language are not on this machine, and cannot be fetched."""


def command(language: str, folder: Path) -> list[str]:
    """Return the command that starts a program, built in ``folder`` if necessary. Raises UnavailableError."""
    if language == "python":
        return [sys.executable, "-m", "tests.interop.schemas.python_cases"]
    return _java(folder) if language == "java" else [build_go(HERE / "go", folder)]


def _java(folder: Path) -> list[str]:
    reason = apache_missing()
    if reason is None and shutil.which("javac") is None:
        reason = "no javac on PATH"
    if reason is not None:
        raise UnavailableError(f"Apache's Java client is not at hand: {reason}")
    classpath = compile_driver(folder, HERE / "java" / "SchemaCases.java")
    quiet = f"-Dlog4j2.configurationFile={JAVA_SOURCES / 'log4j2.properties'}"
    return ["java", *LEAN.split(), quiet, "-cp", classpath, "SchemaCases"]


def build_go(source: Path, folder: Path) -> str:
    """Build the Go program of ``source`` in ``folder``, with the modules of the program of cases; return its path.

    Raises UnavailableError.
    """
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise UnavailableError("the Go client is not at hand: no go on PATH or in /usr/local/go")

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [go, *words],
            cwd=source,
            env={**os.environ, "CGO_ENABLED": "0"},  # zstd in C would be a third of the build
            capture_output=True,
            text=True,
            timeout=BUILD_S_MAX,
        )

    if source != HERE / "go":
        for name in ("go.mod", "go.sum"):
            shutil.copy(HERE / "go" / name, source)

    fetched = run("mod", "download")
    if fetched.returncode != 0:
        raise UnavailableError(f"the Go client is not at hand: {fetched.stderr.strip()[-300:]}")
    program = str(folder / "program")
    built = run("build", "-o", program, ".")
    if built.returncode != 0:
        raise AssertionError(built.stderr[-3000:])
    return program


class Program:
    """A running program of cases; its log is written to ``log``."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        """Start ``command``, which ends with the broker's URL, the prefix of topic names and the folder of keys."""
        self._log = log
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                text=True,
                cwd=ROOT,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("#"):  # anything else is output of a library
                self._answers.put(line[1:])
        self._answers.put('{"error": "the program ended"}')

    def seen(self, case: str) -> Any:
        """Return what the program observed in ``case``.

        Fails with the end of its log; the program is killed when it does not answer within ``CASE_S_MAX``.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(case + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._answers.get(timeout=CASE_S_MAX))
        except queue.Empty:
            self.close()
            answer = {"error": f"no answer within {CASE_S_MAX:.0f} s"}
        except BrokenPipeError:
            answer = {"error": "the program has ended"}
        if "error" in answer:
            tail = self._log.read_text(errors="replace")[-4000:]
            raise AssertionError(f"{case}: {answer['error']}\n{tail}")
        return answer["seen"]

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        self._process.kill()
        self._process.wait(30)
        self._reader.join(30)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue  # a case that the ended program did not read is still buffered


class Programs:
    """One program for each language, started at its first use and again after it ended; ``close`` ends all."""

    def __init__(self, url: str, run: str, folder: Path) -> None:
        """Write the keys. ``run`` is the prefix of all topic names; keys, built programs and logs are in ``folder``."""
        self._url = url
        self._run = run
        self._folder = folder
        self._keys = write_keys(folder)
        self._commands: dict[str, list[str]] = {}
        self._started: dict[str, Program] = {}

    def __getitem__(self, language: str) -> Program:
        """Return the running program of a language. Raises UnavailableError."""
        running = self._started.get(language)
        if running is not None and running.running:
            return running
        if language not in self._commands:
            self._commands[language] = command(language, self._folder)
        if running is not None:
            running.close()
        words = [*self._commands[language], self._url, self._run, str(self._keys)]
        started = self._started[language] = Program(words, self._folder / f"{language}.log")
        return started

    def close(self) -> None:
        for program in self._started.values():
            program.close()
