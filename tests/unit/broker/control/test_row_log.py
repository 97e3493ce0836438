"""A follower of a log of rows receives all of them, however late, slow or far behind it is."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.broker.control import row_log
from engine.broker.control.row_log import ANSWER_BYTES_MAX, Changes, Row, RowLog


class Follower:
    """The rows that the answers add up to, one answer at a time."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.revision = self.begun = 0
        self._unseen: dict[str, Row] = {}

    def receive(self, changes: Changes) -> None:
        if changes.whole:
            self._unseen = dict(self.rows)
        for row in changes.rows:
            self.rows[str(row[0])] = row
            self._unseen.pop(str(row[0]), None)
        for name in changes.gone:
            self.rows.pop(name, None)
        if not changes.more:
            for name in self._unseen:
                self.rows.pop(name, None)
            self._unseen = {}
        self.revision, self.begun = changes.revision, changes.begun

    def ask(self, log: RowLog) -> Changes:
        changes = log.since(self.revision, self.begun)
        self.receive(changes)
        return changes


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("put", "put", "drop", "ask", "ask", "new")),
        st.integers(0, 7),
        st.integers(0, 2),
    ),
    max_size=120,
)


@given(steps=STEPS, room=st.sampled_from((1, 250, 700, ANSWER_BYTES_MAX)), kept=st.integers(0, 5))
def test_a_follower_that_reads_to_the_end_has_all_rows(
    steps: list[tuple[str, int, int]], room: int, kept: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_log, "ANSWER_BYTES_MAX", room)
        patch.setattr(row_log, "GONE_MAX", kept)
        log, truth, follower = RowLog(), dict[str, Row](), Follower()
        for step, number, value in steps:
            name = f"t{number}"
            if step == "put":
                truth[name] = [name, value]
                log.put([name, value])
            elif step == "drop":
                truth.pop(name, None)
                log.drop(name)
            elif step == "new":
                follower = Follower()
            else:
                follower.ask(log)
        for _ in range(200):
            if not follower.ask(log).more:
                break
        assert follower.rows == truth
        assert len(log) == len(truth)


def log_of(count: int) -> RowLog:
    log = RowLog()
    for i in range(count):
        log.put([f"t{i}", 0])
    return log


def test_an_unchanged_row_is_not_sent_again() -> None:
    log = log_of(3)
    seen = log.since(0)
    log.put(["t1", 0])
    again = log.since(seen.revision, seen.begun)
    assert (again.revision, again.rows, again.whole) == (seen.revision, [], False)
    log.put(["t1", 5])
    assert log.since(seen.revision, seen.begun).rows == [["t1", 5]]


def test_only_changed_rows_are_read() -> None:
    log = log_of(1000)
    seen = log.since(0)
    log.put(["t7", 1])

    class Counting(dict[str, Any]):
        looked = 0

        def values(self) -> Any:
            class Values:
                def __reversed__(_) -> Any:
                    for value in reversed(list(dict.values(self))):
                        self.looked += 1
                        yield value

            return Values()

    counting = Counting(log._rows)
    log._rows = counting
    assert log.since(seen.revision).rows == [["t7", 1]]
    assert counting.looked == 2


def test_an_answer_is_bounded_and_flags_that_more_follows() -> None:
    log = RowLog()
    for i in range(20_000):
        log.put([f"persistent://public/default/{'x' * 100}{i}", *[1 << 40] * 9])
    answers = [log.since(0)]
    while answers[-1].more:
        answers.append(log.since(answers[-1].revision, answers[-1].begun))
    assert [answer.whole for answer in answers] == [True] + [False] * (len(answers) - 1)
    assert sum(len(answer.rows) for answer in answers) == 20_000
    assert max(len(answer.rows) for answer in answers) * 270 < 1.5 * ANSWER_BYTES_MAX


@pytest.mark.parametrize("revision", [0, 10_000])
def test_an_unknown_revision_is_answered_with_all_rows(revision: int) -> None:
    assert log_of(3).since(revision).whole


def test_names_of_rows_removed_long_ago_are_forgotten_and_late_followers_start_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_log, "GONE_MAX", 10)
    log = log_of(30)
    early = log.since(0)
    order = random.Random(1).sample(range(30), 12)
    for i in order[:10]:
        log.drop(f"t{i}")
    assert len(log.since(early.revision, early.begun).gone) == 10
    for i in order[10:]:
        log.drop(f"t{i}")
    assert log.since(early.revision, early.begun).whole
    assert len(log._gone) == 10
