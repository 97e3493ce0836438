"""Packages are installed as they were locked: by version and hash."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = tuple(f"requirements{kind}.lock" for kind in ("", "-spark", "-dev", "-tools", "-node"))
PINNED = re.compile(r"[a-z0-9][a-z0-9._-]*(\[[a-z0-9,-]+\])?==[^\s;]+( ;.*)?", re.IGNORECASE)
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def unlocked(text: str) -> list[str]:
    """Return the requirements of a lock file that name no version or no hash."""
    lines = [line.partition(" #")[0].strip() for line in text.splitlines()]
    joined = " ".join(line for line in lines if line and not line.startswith("#"))
    requirements = [
        part.strip() for part in re.split(r"\s(?=[^-\s\\;'][^\s]*==|[^-\s]+ @ )", joined)
    ]
    wrong = []
    for requirement in requirements:
        head = requirement.partition("\\")[0].partition("--hash")[0].strip()
        if not PINNED.fullmatch(head) or not HASH.search(requirement):
            wrong.append(head)
    return wrong


@pytest.mark.parametrize("name", LOCKS)
def test_each_python_package_has_a_version_and_hashes(name: str) -> None:
    text = (ROOT / name).read_text()
    assert text.count("--hash=sha256:") >= text.count("==") > 0
    assert unlocked(text) == []


HASHED = f"a==1.0 \\\n    --hash=sha256:{'0' * 64}\n    # via b"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (HASHED, []),
        (f"{HASHED}\nb==2", ["b==2"]),
        (f"b==2\n{HASHED}", ["b==2"]),
        ("b>=2", ["b>=2"]),
        (f"b @ http://evil.example/b.whl\n{HASHED}", ["b @ http://evil.example/b.whl"]),
    ],
)
def test_a_package_without_a_hash_is_reported(text: str, wrong: list[str]) -> None:
    assert unlocked(text) == wrong


def unverified(lock: Mapping[str, Any]) -> list[str]:
    """Return the packages of npm's lock file without a hash of their content, or from an address of their own."""
    return [
        name
        for name, package in lock["packages"].items()
        if name
        and not (
            str(package.get("integrity", "")).startswith("sha512-")
            and "://" not in str(package.get("resolved", ""))
            and re.fullmatch(r"\d+\.\d+\.\d+\S*", str(package.get("version", "")))
        )
    ]


def test_each_package_of_the_front_end_has_a_version_and_a_hash() -> None:
    lock = json.loads((ROOT / "frontend" / "package-lock.json").read_text())
    assert len(lock["packages"]) > 50
    assert unverified(lock) == []
    wanted = json.loads((ROOT / "frontend" / "package.json").read_text())
    for kind in ("dependencies", "devDependencies"):
        assert all(re.fullmatch(r"\d+\.\d+\.\d+\S*", version) for version in wanted[kind].values())


def test_a_package_of_the_front_end_without_a_hash_is_reported() -> None:
    good = {"version": "1.0.0", "integrity": "sha512-x"}
    packages = {"": {}, "a": good, "b": {"version": "1.0.0"}, "c": good | {"resolved": "git://x"}}
    assert unverified({"packages": packages}) == ["b", "c"]


def test_packages_are_installed_from_the_locks_alone() -> None:
    """Count the calls that install: all have the option that checks hashes."""
    text = (ROOT / "bootstrap.py").read_text()
    installs = re.findall(r'^(?!.*\[apt, ).*"(?:install|sync)"', text, re.MULTILINE)
    assert len(installs) == text.count('"--require-hashes"') == 4
    assert set(re.findall(r'\[\*npm, "([\w-]+)"', text)) == {"ci", "run"}
