"""The rows that a gateway assembles are those of the broker's log, however it is asked."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.broker.control import row_log
from engine.broker.control.row_log import Row, RowLog
from gateway.services.feeds import row_list
from gateway.services.feeds.row_list import RowList


class Table:
    """Rows by name, changed by the answers of one log."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.list = RowList(lambda: self.rows)
        self.revision = self.begun = 0

    def request(self, log: RowLog) -> dict[str, Any]:
        answer = {"at": 7, **log.since(self.revision, self.begun)._asdict()}
        for changes in self.list.changes(answer):
            assert changes.at == 7
            assert len(changes.rows) + len(changes.gone) <= row_list.STEP
            for row in changes.rows:
                self.rows[str(row[0])] = row
            for name in changes.gone:
                self.rows.pop(name, None)
        self.revision, self.begun = answer["revision"], answer["begun"]
        return answer


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(("put", "put", "drop", "request", "request", "restart")),
        st.integers(0, 7),
        st.integers(0, 2),
    ),
    max_size=120,
)


@given(actions=ACTIONS, room=st.sampled_from((1, 250, 700)), step=st.integers(1, 4))
def test_requests_to_the_end_give_the_rows_of_the_log(
    actions: list[tuple[str, int, int]], room: int, step: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_log, "ANSWER_BYTES_MAX", room)
        patch.setattr(row_log, "GONE_MAX", 3)
        patch.setattr(row_list, "STEP", step)
        log, truth, table = RowLog(), dict[str, Row](), Table()
        for action, number, value in actions:
            name = f"t{number}"
            if action == "put":
                truth[name] = [name, value]
                log.put([name, value])
            elif action == "drop":
                truth.pop(name, None)
                log.drop(name)
            elif action == "restart":  # another incarnation of the broker: its log begins again
                log, table.revision, table.begun = RowLog(), 0, 0
                for row in truth.values():
                    log.put(row)
            else:
                table.request(log)
        while table.request(log)["more"]:
            pass
        assert table.rows == truth
        assert table.list.is_complete


def answer(
    *rows: list[Any], gone: tuple[str, ...] = (), whole: bool = False, more: bool = False
) -> dict[str, Any]:
    return {"at": 1, "rows": list(rows), "gone": list(gone), "whole": whole, "more": more}


def test_names_that_a_complete_list_lacks_are_gone_at_its_end() -> None:
    rows = RowList(lambda: ["a", "b", "c"])
    [first] = rows.changes(answer(["b", 1], whole=True, more=True))
    assert (first.rows, first.gone, rows.is_complete) == ([["b", 1]], [], False)
    [last] = rows.changes(answer(["d", 1], gone=("a",)))
    assert (last.rows, last.gone, rows.is_complete) == ([["d", 1]], ["a", "c"], True)


def test_a_list_is_complete_when_its_last_changes_are_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_list, "STEP", 1)
    rows = RowList(lambda: ["a"])
    whole = answer(["b", 1], ["c", 1], whole=True)
    assert [rows.is_complete for _ in rows.changes(whole)] == [False, False, True]


def test_later_changes_leave_a_list_complete() -> None:
    rows = RowList(lambda: ["a"])
    assert [*rows.changes(answer(whole=True))], "an answer without rows has the time of the count"
    [*_] = rows.changes(answer(["b", 1], more=True))
    assert rows.is_complete
    [*_] = rows.changes(answer(["b", 1], whole=True, more=True))
    assert not rows.is_complete
