"""Apache's own Java ledger client and shell in one JVM, commanded line by line (``java/LedgerDriver.java``)."""

import hashlib
import os
import queue
import struct
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("java")
HOME = Path(os.environ.get("PEER_HOME", "~/.cache/magnetar-peer")).expanduser()
LEAN = "-Xms32m -Xmx256m -XX:MaxDirectMemorySize=256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
OPEN = ("java.base/java.io", "java.base/java.nio", "java.base/jdk.internal.misc")

# BKException's codes, as far as the tests meet them.
READ, NOT_ENOUGH_BOOKIES, NO_SUCH_LEDGER, LEDGER_CLOSED, NO_SUCH_ENTRY = -1, -6, -7, -11, -13
LEDGER_EXISTS, DUPLICATE_ENTRY, NO_SUCH_LEDGER_METADATA, ILLEGAL_OP = -20, -22, -25, -100
FENCED, UNAUTHORIZED = -101, -102


class JavaError(Exception):
    """The Java client refused: ``code`` is BKException's."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code


class State(NamedTuple):
    """A ledger as a handle sees it."""

    last: int
    length: int
    closed: bool
    segments: int


class Seen(NamedTuple):
    """Entries that were read; ``digest`` is over lengths and payloads."""

    first: int
    last: int
    digest: str


def payload(entry: int, size: int) -> bytes:
    """Return an entry's payload as the driver writes it."""
    word = b"entry %d " % entry
    return (word * (size // len(word) + 1))[:size]


def digest_of(payloads: Sequence[bytes]) -> str:
    """Return the digest of payloads as the driver's ``read`` computes it."""
    total = hashlib.sha256()
    for data in payloads:
        total.update(struct.pack(">i", len(data)) + data)
    return total.hexdigest()


def expected(first: int, last: int, size: int) -> Seen:
    """Return the result of reading entries that the driver wrote."""
    return Seen(first, last, digest_of([payload(e, size) for e in range(first, last + 1)]))


def compile_driver(folder: Path, source: Path = SOURCE / "LedgerDriver.java") -> str:
    """Class path with a compiled program. Needs the fetched distribution and a JDK."""
    (distribution,) = HOME.glob("apache-pulsar-*/lib")
    jars = f"{distribution}/*"
    subprocess.run(
        ["javac", "-J-XX:TieredStopAtLevel=1", "-d", str(folder), "-cp", jars, str(source)],
        check=True,
        timeout=120,
    )
    return f"{folder}:{jars}"


class Pending:
    """An answer that is to come."""

    def __init__(self) -> None:
        self.answers: queue.SimpleQueue[str] = queue.SimpleQueue()

    def result(self, timeout_s: float = 150.0) -> str:
        """Return the result's text. Raises JavaError, or TimeoutError."""
        try:
            text = self.answers.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError(f"no answer within {timeout_s} s") from None
        kind, _, rest = text.partition(" ")
        if kind == "ok":
            return rest
        code, _, words = rest.partition(" ")
        raise JavaError(int(code or 0), words)


class JavaLedgers:
    """The running driver. Names of clients and handles are the caller's; an empty password is ``-``."""

    def __init__(self, classpath: str) -> None:
        flags = [f"--add-opens={package}=ALL-UNNAMED" for package in OPEN]
        log = f"-Dlog4j2.configurationFile={SOURCE / 'log4j2.properties'}"
        command = ["java", *LEAN.split(), *flags, "-Dio.netty.tryReflectionSetAccessible=true", log]
        self.process = subprocess.Popen(
            [*command, "-cp", classpath, "LedgerDriver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.printed: list[str] = []
        self._waiting: dict[str, Pending] = {}
        self._reader = threading.Thread(target=self._read, name="ledger-driver", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            tag, _, text = line.rstrip("\n").partition(" ")
            if tag.startswith("=") and tag[1:] in self._waiting:
                self._waiting.pop(tag[1:]).answers.put(text)
            else:
                self.printed.append(line.rstrip("\n"))
        for pending in list(self._waiting.values()):
            pending.answers.put("error 0 the driver ended")

    def begin(self, *words: object) -> Pending:
        """Send a command and go on."""
        assert self.process.stdin is not None
        pending = Pending()
        tag = str(id(pending))
        self._waiting[tag] = pending
        self.process.stdin.write(" ".join([tag, *map(str, words)]) + "\n")
        self.process.stdin.flush()
        return pending

    def run(self, *words: object, timeout_s: float = 150.0) -> str:
        return self.begin(*words).result(timeout_s)

    def seen(self, *words: object) -> Seen:
        first, last, digest = self.run(*words).split()
        return Seen(int(first), int(last), digest)

    def state(self, *words: object) -> State:
        """Return the state that ``state``, ``open`` and ``close`` answer with."""
        last, length, closed, segments = self.run(*words).split()
        return State(int(last), int(length), closed == "true", int(segments))

    def code(self, *words: object) -> int:
        """BKException's code that the command ends with; 0 when it does not fail."""
        try:
            self.run(*words)
        except JavaError as error:
            return error.code
        return 0

    def shell(
        self, uri: str, wire: str, *words: object, settings: str = "allowLoopback=true"
    ) -> tuple[int, str]:
        """Exit status and output of a command of ``bookkeeper shell``. Not two at a time."""
        self.printed.clear()
        status = int(self.run("shell", uri, wire, settings, *words))
        return status, "\n".join(self.printed)

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.process.kill()
        self._end()

    def close(self) -> None:
        """End it; nothing that is open gets closed."""
        assert self.process.stdin is not None
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self._end()

    def _end(self) -> None:
        self.process.wait(10)
        self._reader.join(10)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:  # unsent words are lost with the process
                continue
