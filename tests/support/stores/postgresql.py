"""A PostgreSQL of this machine for tests: a cluster of its own in a temporary folder, on a Unix socket alone.

``python -m tests.support.stores.postgresql COMMAND`` runs a command that runs pytest, with it as the gateway's
database; of the tests those run that use the database. Where PostgreSQL is missing, it says so and ends well.
"""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from tests.support.net.certificates import Files

USER, NAME = "magnetar", "postgres"
START_S = 60.0
FOR_TESTS = ("fsync=off", "full_page_writes=off", "max_connections=200")
"""Options that lose data with the machine alone, and not with the process."""
ALONE = "MAGNETAR_TESTS_OF_THE_DATABASE"
"""Variable that lets pytest run the tests of the database alone."""


def programs() -> tuple[str, str] | None:
    """Return the paths of initdb and postgres; None where they are missing."""
    folders = [*sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True), ""]
    for folder in folders:
        paths = [shutil.which(name, path=folder or None) for name in ("initdb", "postgres")]
        if all(paths):
            return str(paths[0]), str(paths[1])
    return None


class PostgreSql:
    """A server. ``url`` is for the setting ``database_url``."""

    def __init__(self, folder: Path, *options: str) -> None:
        found_programs = programs()
        assert found_programs is not None
        self._initdb, self._postgres = found_programs
        self._folder = folder
        self._options = (*FOR_TESTS, f"unix_socket_directories={folder}", *options)
        self._process: subprocess.Popen[bytes] | None = None
        # PostgreSQL refuses to run as root.
        self._user = _other_user() if os.geteuid() == 0 else None
        given = dict(option.split("=", 1) for option in options)
        self.port = int(given.get("port", 5432))
        self.url = f"postgresql://{USER}@{quote(str(folder), safe='')}/{NAME}"
        if self.port != 5432:
            self.url += f"?port={self.port}"
        if self._user is not None:
            os.chown(folder, self._user, -1)

    def create(self) -> None:
        command = [self._initdb, "-D", str(self._folder / "data"), "-U", USER, "-A", "trust"]
        self._run([*command, "-E", "UTF8", "--locale=C", "-N"])

    def _run(self, command: list[str]) -> None:
        subprocess.run(
            command, check=True, capture_output=True, user=self._user, cwd=self._folder, timeout=120
        )

    def start(self) -> None:
        """Start the server; return when it accepts connections."""
        options = [part for option in self._options for part in ("-c", option)]
        log = (self._folder / "log").open("ab")
        self._process = subprocess.Popen(
            [self._postgres, "-D", str(self._folder / "data"), "-h", "", *options],
            stdout=log,
            stderr=log,
            user=self._user,
            cwd=self._folder,
        )
        log.close()
        ends_at_s = time.monotonic() + START_S
        while not self.answers():
            if time.monotonic() > ends_at_s or self._process.poll() is not None:
                raise RuntimeError((self._folder / "log").read_text())
            time.sleep(0.02)

    def answers(self) -> bool:
        """Return whether the server accepts connections now."""
        import psycopg

        place = {"host": str(self._folder), "port": self.port}
        try:
            psycopg.connect(user=USER, dbname=NAME, **place).close()
        except psycopg.OperationalError:
            return False
        return True

    def secure(self, files: Files, client_ca: str) -> None:
        """Start again with TLS on 127.0.0.1 for clients that have a password and a certificate of ``client_ca``."""
        self.stop()
        data = self._folder / "data"
        for name, source in (("cert", files.cert), ("key", files.key), ("ca", client_ca)):
            target = data / f"tls.{name}"
            shutil.copy(source, target)
            target.chmod(0o600)
            if self._user is not None:
                os.chown(target, self._user, -1)
        rules = (
            "local all all trust\nhostssl {} all 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n"
        )
        hba = "".join(rules.format(what) for what in ("all", "replication"))
        (data / "pg_hba.conf").write_text(hba)
        self._options = (
            *self._options,
            *("ssl=on", f"ssl_cert_file={data}/tls.cert", f"ssl_key_file={data}/tls.key"),
            *(f"ssl_ca_file={data}/tls.ca", "listen_addresses=127.0.0.1"),
        )
        self.start()

    def kill(self) -> None:
        """End the server and all connections at once, as by a loss of power."""
        self._end(signal.SIGQUIT)

    def stop(self) -> None:
        if self._process is not None:
            self._end(signal.SIGINT)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop all of the server's processes for a while, as a machine that stands still."""
        assert self._process is not None
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        pids = [pid, *map(int, children)]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                # A child may have been ended before it stood still, and is gone by now.
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def _end(self, how: int) -> None:
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(60)
        self._process = None


def _other_user() -> int:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_uid
        except KeyError:
            continue
    raise RuntimeError("no user for PostgreSQL")


@contextmanager
def running_postgresql(*options: str) -> Iterator[PostgreSql]:
    """Yield a running server in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="magnetar-pg-"))
    server = PostgreSql(folder, *options)
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def main(command: list[str]) -> int:
    """Run a command on a server; return its exit status."""
    if programs() is None:
        print(
            "SKIPPED: tests on PostgreSQL, since initdb and postgres are missing", file=sys.stderr
        )
        return 0
    # Threads of tests end without closing their connections, which goes with the server at the end.
    leaks = ("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
    with running_postgresql() as server:
        env = {
            **os.environ,
            "MAGNETAR_DATABASE_URL": server.url,
            "MAGNETAR_DATABASE_CONNECTIONS_MAX": "80",
            ALONE: "1",
            "PYTEST_ADDOPTS": " ".join(["--reuse-db", *(f"-W {leak}" for leak in leaks)]),
        }
        return subprocess.call(command, env=env)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
