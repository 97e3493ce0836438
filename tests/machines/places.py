"""Addresses at which machines run: several of loopback, or a network namespace for each, whose links can be cut."""

import os
import subprocess
from collections.abc import Sequence
from typing import Protocol


class Place(Protocol):
    """Addresses for machines, numbered from 1."""

    def address(self, number: int) -> str: ...

    def command(self, number: int, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs ``argv`` on a machine."""
        ...

    def close(self) -> None: ...


class Loopback:
    """Every machine has an address of 127.0.0.0/8. Links cannot be cut."""

    def address(self, number: int) -> str:
        return f"127.0.0.{10 + number}"

    def command(self, number: int, argv: Sequence[str]) -> list[str]:
        return list(argv)

    def close(self) -> None:
        pass


class Namespaces:
    """A network namespace for each machine, with a pair of virtual interfaces to a bridge of this host. Needs root and
    ``ip``."""

    PREFIX, BRIDGE = "10.77.0", "mgt-br"
    NOWHERE = "02:00:00:00:00:01"
    """Hardware address of no machine."""

    def __init__(self, machines: int) -> None:
        self._numbers = range(1, machines + 1)
        try:
            self._create()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def missing() -> str:
        """Return why there can be no namespaces here; empty where there can."""
        if os.geteuid() != 0:
            return "network namespaces need root"
        try:
            _ip("netns", "add", "mgt-try")
            _ip("netns", "del", "mgt-try")
        except (OSError, subprocess.CalledProcessError) as error:
            return f"no network namespaces: {error}"
        return ""

    def _create(self) -> None:
        _ip("link", "add", self.BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{self.PREFIX}.1/24", "dev", self.BRIDGE)
        _ip("link", "set", self.BRIDGE, "up")
        for number in self._numbers:
            space, outer = f"mgt-{number}", f"mgt-v{number}"
            _ip("netns", "add", space)
            _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", outer, "master", self.BRIDGE, "up")
            self._in(number, "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                self._in(number, "link", "set", device, "up")

    def _in(self, number: int, *words: str) -> None:
        _ip("netns", "exec", f"mgt-{number}", "ip", *words)

    def address(self, number: int) -> str:
        return f"{self.PREFIX}.{10 + number}"

    def command(self, number: int, argv: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", f"mgt-{number}", *argv]

    def cut(self, source: int, target: int) -> None:
        """Lose all packets from one machine to another, silently; those of the other way still arrive."""
        host = self.address(target)
        self._in(source, "neigh", "replace", host, "lladdr", self.NOWHERE, "dev", "eth0")

    def mend(self, source: int, target: int) -> None:
        self._in(source, "neigh", "del", self.address(target), "dev", "eth0")

    def slow(self, number: int, kilobits: int) -> None:
        """Limit what a machine sends; 0: no limit."""
        command = ["ip", "netns", "exec", f"mgt-{number}", "tc", "qdisc"]
        if kilobits:
            limit = ["tbf", "rate", f"{kilobits}kbit", "burst", "32k", "latency", "400ms"]
            _run([*command, "replace", "dev", "eth0", "root", *limit])
        else:
            _run([*command, "del", "dev", "eth0", "root"])

    def close(self) -> None:
        for number in self._numbers:
            subprocess.run(
                ["ip", "netns", "del", f"mgt-{number}"], capture_output=True, check=False
            )
        subprocess.run(["ip", "link", "del", self.BRIDGE], capture_output=True, check=False)


def _ip(*words: str) -> None:
    _run(["ip", *words])


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
