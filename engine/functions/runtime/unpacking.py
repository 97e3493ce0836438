"""Unpacks the user's package and installs what it requires, into folders of their own.

A package is a file ``.py``, a wheel, or a ``.zip`` with any of ``requirements.txt``, ``deps/*.whl`` and ``src``, in a
folder or not, as Apache's. Requirements are installed once for all functions that have the same ones.
"""

import ensurepip
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.instance_users import give_to, identity_of
from engine.functions.runtime.ports import InstanceUser

UNPACKED_BYTES_MAX = 1024 * 1024 * 1024
FILES_MAX = 20_000
INSTALL_S = 300.0
ENVIRONMENT: Mapping[str, str] = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
ERROR_CHARACTERS_MAX = 4000


class Unpacker:
    """Unpacks packages. ``environments``: the folder of installed requirements. ``index``: whether requirements that
    the package does not contain may come from the configured package index."""

    def __init__(self, environments: Path, *, index: bool = False) -> None:
        self._environments = environments
        self._index = index

    def unpack(self, package: Path, folder: Path, user: InstanceUser | None = None) -> list[str]:
        """Return the entries of ``sys.path`` for a package, unpacked into ``folder``. Raises InstanceError.

        ``user``: the one whose home the folder is in, which becomes his; requirements are installed there, as this
        user: an installation can run code of the package and read what it names. Blocks: the caller runs it in a
        thread.
        """
        paths = self._extracted(package, folder)
        if user is not None:
            give_to(folder.parent, user)
        if package.suffix != ".zip":
            return paths
        base = Path(paths[-1])
        requirements, wheels = base / "requirements.txt", sorted((base / "deps").glob("*.whl"))
        if requirements.is_file() or wheels:
            if user is None:
                installed = self._installed(requirements, wheels)
            else:
                installed = folder.with_name("environment")
                self._install(requirements, wheels, installed, user)
            paths.append(str(installed))
        return paths

    def _extracted(self, package: Path, folder: Path) -> list[str]:
        """Return the entries of ``sys.path`` without requirements. Raises InstanceError."""
        folder.mkdir(parents=True, exist_ok=True)
        if package.suffix == ".py":
            shutil.copyfile(package, folder / package.name)
            return [str(folder)]
        if package.suffix not in (".zip", ".whl"):
            raise InstanceError(f"package {package.name}: a .py, .zip or .whl file is needed")
        _extract(package, folder)
        if package.suffix == ".whl":
            return [str(folder)]
        base = _base(folder)
        return [str(base / "src"), str(base)] if (base / "src").is_dir() else [str(base)]

    def _installed(self, requirements: Path, wheels: Sequence[Path]) -> Path:
        """Return the folder of these requirements, installed at the first request. Raises InstanceError."""
        digest = hashlib.sha256(sys.version.encode())
        for file in (requirements, *wheels):
            if file.is_file():
                digest.update(b"\x00" + file.name.encode() + b"\x00" + file.read_bytes())
        target = self._environments / digest.hexdigest()[:32]
        if target.is_dir():
            return target
        self._environments.mkdir(parents=True, exist_ok=True)
        new = self._environments / f"{target.name}.{os.getpid()}.new"
        shutil.rmtree(new, ignore_errors=True)
        try:
            self._install(requirements, wheels, new)
            new.rename(target)
        except OSError:
            if not target.is_dir():  # else another instance was first
                raise
        finally:
            shutil.rmtree(new, ignore_errors=True)
        return target

    def _install(
        self,
        requirements: Path,
        wheels: Sequence[Path],
        new: Path,
        user: InstanceUser | None = None,
    ) -> None:
        command = [*_installer(), "--target", str(new)]
        if not self._index:
            command.append("--no-index")
        if wheels:
            command += ["--find-links", str(wheels[0].parent)]
        if requirements.is_file():
            command += ["-r", str(requirements)]
        else:
            command += [str(wheel) for wheel in wheels]
        home = self._environments if user is None else new.parent
        cache = {"HOME": str(home), "UV_CACHE_DIR": str(home / "cache")}
        try:
            done = subprocess.run(
                command,
                env={**ENVIRONMENT, **cache},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=INSTALL_S,
                check=False,
                **identity_of(user),
            )
        except subprocess.TimeoutExpired as error:
            raise InstanceError(
                f"requirements were not installed within {INSTALL_S:g} s"
            ) from error
        if done.returncode:
            text = done.stderr.decode(errors="replace").strip()[-ERROR_CHARACTERS_MAX:]
            hint = "" if self._index else " (no package index is used: put wheels into deps/)"
            raise InstanceError(f"requirements cannot be installed{hint}: {text}")


def _installer() -> list[str]:
    """Return the command that installs packages for this Python. Raises InstanceError."""
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    pip = [sys.executable, "-I", "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode == 0:
        return [*pip, "install", "--quiet", "--disable-pip-version-check"]
    # Python's own copy, which installs pip into new virtual environments, can be run where it lies.
    bundled = sorted(Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl"))
    if bundled:
        pip = [sys.executable, "-I", str(bundled[-1] / "pip")]
        return [*pip, "install", "--quiet", "--disable-pip-version-check"]
    raise InstanceError("requirements cannot be installed: this worker has neither uv nor pip")


def _extract(package: Path, folder: Path) -> None:
    """Unpack an archive, none of whose names lead out of ``folder``. Raises InstanceError."""
    try:
        with zipfile.ZipFile(package) as archive:
            infos = archive.infolist()
            size = sum(info.file_size for info in infos)
            if size > UNPACKED_BYTES_MAX or len(infos) > FILES_MAX:
                raise InstanceError(
                    f"package {package.name}: {size} bytes in {len(infos)} files unpacked, more than "
                    f"{UNPACKED_BYTES_MAX} bytes or {FILES_MAX} files"
                )
            archive.extractall(folder)  # which drops drive letters, slashes in front and ..
    except (zipfile.BadZipFile, OSError, RuntimeError) as error:
        raise InstanceError(f"package {package.name} cannot be unpacked: {error}") from error


def _base(folder: Path) -> Path:
    """Return the folder that the package's parts are in: the only one, where the archive has one at its top."""
    marks = ("requirements.txt", "src", "deps")
    if any((folder / mark).exists() for mark in marks):
        return folder
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith((".", "__MACOSX"))]
    if (
        len(entries) == 1
        and entries[0].is_dir()
        and any((entries[0] / mark).exists() for mark in marks)
    ):
        return entries[0]
    return folder
