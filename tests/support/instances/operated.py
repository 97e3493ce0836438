"""The command ``magnetar`` on an instance of a test: with the instance's ports and another data folder where needed."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.instance import ROOT, Instance


def environment(instance: Instance, data_dir: Path | None = None) -> dict[str, str]:
    """Return the variables with which a command finds the instance."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAGNETAR_")}
    env |= {f"MAGNETAR_{name}_PORT": str(port) for name, port in instance.ports.items()}
    return {**env, "MAGNETAR_DATA_DIR": str(data_dir or instance.data_dir), **instance.env}


def magnetar(
    instance: Instance, *arguments: str | Path, data_dir: Path | None = None, code: int = 0
) -> str:
    """Run the command to its end and return its output; fails with another exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "magnetar", *map(str, arguments)],
        cwd=ROOT,
        env=environment(instance, data_dir),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr
