"""A Python with these packages that every user of the machine can run, also where the tests' own lies in a private
folder."""

import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.support.instance import ROOT

UID = 2_000_200_000
"""A user that no machine has."""


def reachable_python(folder: Path) -> str:
    """Return the tests' Python, or one of the operating system in a new environment ``folder`` with the tests'
    packages; empty where others can run neither."""
    code = f"import sys, ssl; sys.path.insert(0, {str(ROOT)!r}); import engine.functions.instance.__main__"
    for python in (sys.executable, _environment(folder)):
        command = [python, "-I", "-c", code]
        try:
            done = subprocess.run(command, user=UID, group=UID, cwd="/", check=False)
        except OSError:
            continue
        if done.returncode == 0:
            return python
    return ""


def _environment(folder: Path) -> str:
    """Return the executable of a virtual environment with the tests' packages, on a Python of the same version."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "bin").mkdir(parents=True)
    (folder / "lib" / version).mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(f"/usr/bin/{version}")
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n")
    packages = Path(sysconfig.get_path("purelib")).resolve()
    (folder / "lib" / version / "site-packages").symlink_to(packages)
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    return str(folder / "bin" / "python")
