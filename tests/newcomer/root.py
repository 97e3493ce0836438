"""Root file systems of fresh Debian releases, and commands in them as a plain user.

Everything runs in namespaces of its own: mounts, processes and network end with the command.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("ca-certificates", "git", "make", "python3-venv")
"""Packages that a user installs first, as the installation page says."""
USER = 4000
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
PASSED_ON = ("PIP_INDEX_URL", "UV_INDEX_URL", "http_proxy", "https_proxy", "no_proxy")


class RootError(Exception):
    """A root file system could not be made."""


@dataclass(frozen=True, slots=True)
class Root:
    """A Debian release, with what earlier commands have left in ``layers``, the newest first."""

    suite: str
    base: Path
    layers: tuple[Path, ...] = ()

    def on(self, layer: Path) -> "Root":
        """Return the root as a command that ran in ``layer`` has left it."""
        return Root(self.suite, self.base, (layer, *self.layers))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a command: its exit code, and both its outputs."""

    code: int
    output: str


def make_root(suite: str, folder: Path, mirror: str) -> Root:
    """Return the release, downloaded into ``folder`` where it is not there. Raises RootError."""
    base = folder / suite
    ready = folder / f"{suite}.ready"
    if not ready.exists():
        shutil.rmtree(base, ignore_errors=True)
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}"]
        made = subprocess.run([*command, suite, str(base), mirror], capture_output=True, text=True)
        if made.returncode:
            raise RootError(f"debootstrap {suite}: {made.stdout[-300:]}{made.stderr[-300:]}")
        ready.touch()
    return Root(suite, base)


def command_in(
    root: Root,
    layer: Path,
    script: str,
    *,
    network: bool,
    as_root: str = "",
    variables: Mapping[str, str],
    timeout_s: float,
) -> Outcome:
    """Run ``script`` as a plain user on a copy of ``root``; its changes stay in ``layer``.

    ``as_root`` runs before it, outside of the new root, whose path is ``$R``. Without ``network`` it has a loopback of
    its own, whose ports are all free.
    """
    for name in ("up", "work", "root"):
        (layer / name).mkdir(parents=True, exist_ok=True)
    lower = ":".join(str(item / "up") for item in root.layers) + ":" * bool(root.layers)
    certificates = {
        name: str(CERTIFICATES) for name in ("SSL_CERT_FILE", "PIP_CERT", "NODE_EXTRA_CA_CERTS")
    }
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LC_ALL": "C",
        **(certificates if network else {}),
        **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
        **variables,
    }
    user = "/usr/sbin/chroot --userspec={0}:{0} $R env -i {1} bash /tmp/script"
    words = " ".join(shlex.quote(f"{name}={value}") for name, value in env.items())
    steps = f"""
set -eu
R={shlex.quote(str(layer / "root"))}
mount -t overlay overlay -o lowerdir={lower}{root.base},upperdir={layer / "up"},workdir={layer / "work"} $R
mount --rbind /dev $R/dev
mount -t tmpfs -o mode=1777 tmpfs $R/dev/shm
mount -t proc proc $R/proc
cp -L /etc/resolv.conf $R/etc/resolv.conf
[ ! -e {CERTIFICATES} ] || cp {CERTIFICATES} $R{CERTIFICATES}
ip link set lo up 2>/dev/null || true
chroot $R id user >/dev/null 2>&1 || chroot $R useradd -m -u {USER} user
cat > $R/tmp/script <<'END_OF_SCRIPT'
{script}
END_OF_SCRIPT
{as_root}
exec {user.format(USER, words)}
"""
    unshare = [
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        *([] if network else ["--net"]),
    ]
    with (layer / "output").open("w+", errors="replace") as output:
        process = subprocess.Popen(
            [*unshare, "sh", "-c", steps], stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = 124
        output.seek(0)
        return Outcome(code, output.read())
