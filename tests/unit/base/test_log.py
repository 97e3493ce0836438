"""Log lines: a bound logger adds its facts, and a logged value cannot forge a line or a fact."""

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.log import REPEAT_S, Seldom, bound, formatter


@contextmanager
def written(form: str) -> Iterator[tuple[logging.Logger, io.StringIO]]:
    """Yield a logger that writes in ``form``, and its output."""
    log, out = logging.Logger("component"), io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(formatter(form))
    log.addHandler(handler)
    yield log, out


def test_a_bound_logger_appends_its_facts(caplog: pytest.LogCaptureFixture) -> None:
    log = bound("component", topic="t", ledger=7)
    with caplog.at_level(logging.INFO):
        log.info("rolled entries=%d", 3)
    assert caplog.messages == ["rolled entries=3 topic=t ledger=7"]


@pytest.mark.parametrize("args", [(), (3,)])
def test_bound_facts_may_hold_percent_signs(
    args: tuple[int, ...], caplog: pytest.LogCaptureFixture
) -> None:
    message = "rolled entries=%d" if args else "full by 100%"
    bound("component", topic="a%2Fb%s").warning(message, *args)
    assert caplog.messages == [f"{message % args if args else message} topic=a%2Fb%s"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "reason=plain"),
        (7, "reason=7"),
        ("persistent://a/b/c", "reason=persistent://a/b/c"),
        ("two words", 'reason="two words"'),
        ("", 'reason=""'),
        ('a"b', r'reason="a\"b"'),
        ("a=b", 'reason="a=b"'),
        ("x\n2026 ERROR y", r'reason="x\n2026 ERROR y"'),
        ("\x1b[2J\u202e", r'reason="\u001b[2J\u202e"'),
    ],
)
def test_values_are_quoted_where_they_could_be_taken_for_more(value: object, shown: str) -> None:
    with written("text") as (log, out):
        log.warning("closed reason=%s ledger=%d", value, 5)
    time, line = out.getvalue().split(" ", 1)
    assert time.endswith("Z")
    assert line == f"WARNING component closed {shown} ledger=5\n"


def test_values_elsewhere_in_the_message_are_left_alone() -> None:
    with written("text") as (log, out):
        log.info("cannot start: %s, 100%%, at=%s/%s by=%r", "no such file", "a b", "c", "d e")
    assert (
        out.getvalue().split(" ", 3)[3] == "cannot start: no such file, 100%, at=a b/c by='d e'\n"
    )


@given(st.text())
def test_a_record_is_one_line_whatever_it_names(text: str) -> None:
    with written("text") as (log, out):
        log.info("value=%s by %s", text, text)
        log.info(text)
    assert len(out.getvalue().splitlines()) == 2
    with written("json") as (log, out):
        log.info("by %s", text)
    assert json.loads(out.getvalue())["message"] == f"by {text}"
    assert len(out.getvalue().splitlines()) == 1


def failed(log: logging.Logger) -> None:
    try:
        raise ValueError("first\n2026-01-01T00:00:00.000Z INFO forged\x85line")
    except ValueError:
        log.exception("broken")


def test_a_traceback_follows_indented_so_that_no_line_of_it_is_a_record() -> None:
    with written("text") as (log, out):
        failed(log)
    first, *others = out.getvalue().splitlines()
    assert first.endswith(" ERROR component broken")
    assert others[0] == "    Traceback (most recent call last):"
    assert all(line.startswith("    ") for line in others)
    assert any("forged" in line for line in others)


def test_json_holds_the_traceback_too() -> None:
    with written("json") as (log, out):
        failed(log)
        log.info("fine")
    broken, fine = map(json.loads, out.getvalue().splitlines())
    assert (broken["level"], broken["logger"], broken["message"]) == (
        "ERROR",
        "component",
        "broken",
    )
    assert broken["error"].startswith("Traceback (most recent call last):")
    assert set(fine) == {"time", "level", "logger", "message"}


def test_json_holds_the_values_by_their_keys() -> None:
    with written("json") as (log, out):
        log.info("rolled ledger=%d seconds=%.3f after=%s reason=%s", 7, 0.5, None, "disk is full")
        log.info("rolled %s of %s ledger=%s", "one", "two", Path("x"))
        log.info("literal=%s")
    rolled, mixed, literal = map(json.loads, out.getvalue().splitlines())
    assert rolled["facts"] == {
        "ledger": 7, "seconds": 0.5, "after": None, "reason": "disk is full"
    }  # fmt: skip
    assert mixed["facts"] == {"ledger": "x"}
    assert "facts" not in literal


def test_an_unavailable_metadata_store_is_logged_every_few_seconds() -> None:
    seldom = Seldom("kazoo")

    def passes(name: str, text: str, at_s: float) -> bool:
        record = logging.LogRecord(name, logging.WARNING, "", 0, "dropped: %s", (text,), None)
        record.created = at_s
        return seldom.filter(record)

    refused = [passes("kazoo.client", "refused", 100 + 0.1 * n) for n in range(151)]
    assert [n for n, let in enumerate(refused) if let] == [0, 50, 100, 150]
    assert passes("kazoo.client", "no answer", 101)
    assert all(passes("engine.broker", "refused", 100) for _ in range(2)), (
        "only kazoo repeats itself"
    )
    assert passes("kazoo.client", "refused", 115 - REPEAT_S), (
        "a clock that was set back hides nothing"
    )
