"""Collection of a support bundle by ``magnetar support``, in a process of its own."""

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from django.conf import settings

from engine.base.errors import Conflict, NotReady

COLLECTED_S = 150.0
"""Bound of a collection, of which `magnetar doctor` may take a minute."""
LOCK = "support.lock"
OF_INSTANCE = "MAGNETAR_METADATA_URL"
"""Variable that the supervisor gives to a gateway. With it the command would take the instance for a cluster, whose
parts run separately."""


def collect(*, hash_names: bool) -> bytes:
    """Return a bundle, a ZIP file. Blocks for seconds. Raises Conflict, NotReady."""
    folder = settings.ENVIRONMENT.data_dir
    with (folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(
                "a support bundle is being collected: try again when it is complete"
            ) from None
        with tempfile.TemporaryDirectory(prefix="magnetar-support-") as work:
            file = Path(work, "bundle.zip")
            command = [sys.executable, "-P", "-m", "magnetar", "support", str(file)]
            hidden = ["--hash-names"] if hash_names else []
            _run([*command, *hidden, "--data-dir", str(folder)])
            return file.read_bytes()


def _run(command: list[str]) -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if settings.ENVIRONMENT.control_socket:
        environ = {name: value for name, value in environ.items() if name != OF_INSTANCE}
    try:
        done = subprocess.run(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COLLECTED_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NotReady(f"the bundle was not complete after {COLLECTED_S:.0f} s") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        raise NotReady(f"magnetar support failed: {lines[-1]}")
