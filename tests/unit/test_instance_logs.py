"""Log lines that count as complaints of an instance."""

from pathlib import Path

import pytest

from tests.support.instance import complaints

AT = "2026-11-26T00:34:41.217Z"
STACK = "Traceback (most recent call last):"


@pytest.mark.parametrize(
    ("log", "text", "counted"),
    [
        ("broker-1.log", f"{AT} INFO engine.broker rolled", False),
        ("broker-1.log", f"{AT} WARNING engine.managed.trimming rolled", True),
        ("broker-1.log", f"{AT} WARNING kazoo.client Connection dropped", False),
        ("broker-1.log.1", f"{AT} ERROR asyncio Task exception was never retrieved", True),
        ("gateway-2.log", f"{STACK}\n  File x\nValueError: y", True),
        ("worker.log", f"{AT} WARNING gateway.jobs.tasks Spark could not be warmed up: x", True),
        ("spark.log", "12:00 WARN Utils something", False),
        ("spark.log", f"  {STACK}", True),
        ("zookeeper.log", "12:00 ERROR x", False),
        (
            "bookie-1.log",
            f"{AT} WARNING bookie.presence registration failed, trying again r=x",
            False,
        ),
        ("supervisor.log", "magnetar: broker-1 ended (signal 9); again in 0.5 s", True),
        ("supervisor.log", "magnetar: broker-1 is ready after 1.0 s", False),
    ],
)
def test_complaints_are_counted(tmp_path: Path, log: str, text: str, counted: bool) -> None:
    (tmp_path / "logs").mkdir()
    path = tmp_path / log if log == "supervisor.log" else tmp_path / "logs" / log
    path.write_text(f"{text}\n")
    assert len(complaints(tmp_path)) == counted


def test_complaints_that_a_test_names_are_not_reported(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    lines = [
        f"{AT} WARNING gateway.jobs.tasks run failed id=1",
        f"    {STACK}",
        "    ValueError: x",
    ]
    (tmp_path / "logs" / "worker.log").write_text("\n".join(lines))
    assert complaints(tmp_path) == [f"worker.log: {lines[0]}"]
    assert complaints(tmp_path, ["run failed"]) == []
