"""The log file of a child: the line that explains its end, and its bound on disk."""

from pathlib import Path

import pytest

from gateway.standalone.children.log_file import LogFile


def test_a_message_is_read_in_either_form_and_cannot_move_the_cursor(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "broker-1.log")
    log.path.write_text(
        '{"time": "12:00", "level": "CRITICAL", "logger": "engine", "message": "no disk\\u001b[2J"}\n{"x": 1}\nbye\n'
    )
    assert log.last_message() == "12:00 CRITICAL engine no disk\\u001b[2J"


def test_a_long_message_keeps_the_remedy_at_its_end(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "zookeeper.log")
    path = "/home/" + "folder/" * 20 + "log-0000000001"
    line = f'12:00 CRITICAL engine {path} is damaged: restore it, or "truncate -s 5 {path}"'
    log.path.write_text(line + "\n")
    assert log.last_message() == line


def test_a_long_log_keeps_its_end_and_begins_again_under_its_writer(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "broker-1.log", keep_bytes=1000)
    with log.path.open("ab") as writer:
        for number in range(300):
            writer.write(b"line %04d\n" % number)
        writer.flush()
        log.rotate()
        assert log.path.stat().st_size == 0
        writer.write(b"after\n")
        writer.flush()
    assert log.path.read_bytes() == b"after\n"
    kept = (tmp_path / "broker-1.log.1").read_bytes()
    assert len(kept) == 1000
    assert kept.endswith(b"line 0299\n")
    assert log.last_message() == "after"


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (
            "12:00 main ERROR Invalid config\nConfigException: Error processing\n\tat a.b(C.java:1)\n"
            "Caused by: java.lang.IllegalArgumentException: zoo.cfg file is missing\n\tat d\n"
            "12:00 main ERROR Exiting JVM with code 2",
            "java.lang.IllegalArgumentException: zoo.cfg file is missing",
        ),
        (
            "Caused by: x\n12:00 CRITICAL bookie cannot start: no disk",
            "12:00 CRITICAL bookie cannot start: no disk",
        ),
        ("starting\nWARNING: package sun.security.action not in java.base", "starting"),
        (
            "PermissionError: [Errno 13] Permission denied",
            "PermissionError: [Errno 13] Permission denied",
        ),
    ],
)
def test_the_last_message_is_the_cause(tmp_path: Path, output: str, message: str) -> None:
    (tmp_path / "x.log").write_text(output)
    assert LogFile(tmp_path / "x.log").last_message() == message
