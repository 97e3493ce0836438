"""Builds the image's root file system without a container engine: runs the Containerfile's instructions in a chroot
of a minimal Debian with its Python. As root, with ``debootstrap`` and Debian's packages."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.import_graph import ROOT

CONTAINERFILE = ROOT / "deploy" / "image" / "Containerfile"
SUITE = "bookworm"
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CHROOT = shutil.which("chroot", path=SYSTEM_PATH) or "chroot"
PACKAGES = "python3,python3-venv,ca-certificates"
PASSED = ("PIP_", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
"""Beginnings of the machine's variables that the build needs for its network."""
FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
OF_CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
"""Variables that name a file of the machine."""


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a Containerfile with their arguments, each as one line."""
    pending = ""
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        pending += line.removesuffix("\\")
        if not line.endswith("\\"):
            name, _, rest = pending.partition(" ")
            yield name, rest.strip()
            pending = ""


def debootstrap() -> list[str]:
    """Return the command line of debootstrap; skip the test without it."""
    unpacked = ROOT / ".tools" / "debootstrap"
    if path := shutil.which("debootstrap"):
        return [path]
    if (unpacked / "usr/sbin/debootstrap").exists():
        share = f"DEBOOTSTRAP_DIR={unpacked}/usr/share/debootstrap"
        return ["env", share, str(unpacked / "usr/sbin/debootstrap")]
    pytest.skip("debootstrap is not installed: it is in Debian's package of that name")


class ImageBuilder:
    """Runs the Containerfile in ``folder``. ``build`` returns the root of the last stage."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stages: dict[str, Path] = {}
        self._root = folder
        self._environment: dict[str, str] = {}
        self._arguments: dict[str, str] = {}
        self._directory = "/"
        self.user = ""
        self.entry: list[str] = []

    def build(self) -> Path:
        base = self._folder / "base"
        variant = ["--variant=minbase", f"--include={PACKAGES}", SUITE, str(base)]
        self._call([*debootstrap(), *variant])
        (base / "usr/local/bin/python").symlink_to("/usr/bin/python3")
        for name in (*FILES, *(os.environ[name] for name in OF_CERTIFICATES if name in os.environ)):
            if Path(name).exists():
                (base / name[1:]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(name, base / name[1:])
        for name, rest in instructions(CONTAINERFILE.read_text()):
            getattr(self, f"_{name.lower()}", self._other)(rest)
        return self._root

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables of a container."""
        return self._environment

    def _call(self, command: Sequence[str], **options: object) -> None:
        done = subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]
        assert done.returncode == 0, f"{command}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"

    def _from(self, rest: str) -> None:
        words = rest.split()
        name = words[2] if len(words) == 3 else "last"
        self._root = self._stages[name] = self._folder / f"stage-{name}"
        self._call(["cp", "-a", "--reflink=auto", str(self._folder / "base"), str(self._root)])
        self._environment, self._directory = {"PATH": SYSTEM_PATH}, "/"

    def _arg(self, rest: str) -> None:
        name, _, value = rest.partition("=")
        self._arguments[name] = value

    def _env(self, rest: str) -> None:
        for word in shlex.split(rest):
            name, _, value = word.partition("=")
            self._environment[name] = value

    def _workdir(self, rest: str) -> None:
        self._directory = rest
        (self._root / rest[1:]).mkdir(parents=True, exist_ok=True)

    def _user(self, rest: str) -> None:
        self.user = rest

    def _entrypoint(self, rest: str) -> None:
        self.entry = rest.strip('["]').split('", "')

    def _copy(self, rest: str) -> None:
        words = rest.split()
        options = dict(word[2:].split("=") for word in words if word.startswith("--"))
        *sources, target = [word for word in words if not word.startswith("--")]
        place = self._root / (self._directory if target.startswith(".") else target).lstrip("/")
        if stage := options.get("from"):
            self._call(["cp", "-a", f"{self._stages[stage]}{sources[0]}", str(place)])
            return
        for source in sources:
            files = sorted(ROOT.glob(source))
            assert files, f"COPY {source}: no such file"
            for file in files:
                shutil.copy(file, place / file.name if target.endswith("/") else place)
        if mode := options.get("chmod"):
            place.chmod(int(mode, 8))

    def _run(self, rest: str) -> None:
        passed = {name: text for name, text in os.environ.items() if name.startswith(PASSED)}
        variables = {**passed, **self._arguments, **self._environment}
        script = f"cd {self._directory} && {rest}"
        command = [CHROOT, str(self._root), "/bin/sh", "-ec", script]
        self._call(command, env=variables)

    def _other(self, rest: str) -> None:
        """Ignore what does not change the file system: LABEL, CMD, HEALTHCHECK, STOPSIGNAL."""
