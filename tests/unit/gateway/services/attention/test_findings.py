"""Findings that brokers report of subscriptions, change by change."""

from typing import Any

from gateway.services.attention.findings import Findings
from gateway.services.feeds.row_list import RowChanges

LAG = ["slow", "warning", 5_000, 2_500, {"rate_in": 3.0}]
T = "persistent://t/n/a"


def changes_of(*rows: list[Any], gone: tuple[str, ...] = ()) -> RowChanges:
    return RowChanges(1, list(rows), list(gone))


def test_a_finding_lasts_while_its_broker_reports_it() -> None:
    findings = Findings()
    findings.apply("b", changes_of([T, ["s", 9, 100, LAG], ["t", 1, 0, None]]))
    (finding,) = findings
    assert (
        finding.topic,
        finding.subscription,
        finding.backlog,
        finding.cause,
        finding.growth,
    ) == (
        T,
        "s",
        9,
        "slow",
        2.5,
    )
    assert findings.of(T) == {"s": finding}
    before = findings.version
    findings.apply("b", changes_of([T, ["t", 1, 0, None]]))
    assert (len(findings), findings.of(T)) == (0, {})
    assert findings.version > before


def test_a_topic_that_moves_counts_where_it_was_reported_last() -> None:
    findings = Findings()
    findings.apply("b", changes_of([T, ["s", 9, 0, LAG]]))
    findings.apply("c", changes_of([T, ["s", 7, 0, LAG]]))
    findings.apply("b", changes_of(gone=(T,)))
    assert [finding.backlog for finding in findings] == [7]
    findings.forget("b")
    assert len(findings) == 1
    findings.forget("c")
    assert (len(findings), T in findings) == (0, False)


def test_a_topic_that_leaves_with_a_finding_is_counted_as_a_move() -> None:
    findings = Findings()
    findings.apply(
        "b", changes_of([T, ["s", 9, 0, LAG]], ["u", ["s", 1, 0, None]], ["v", ["s", 1, 0, LAG]])
    )
    findings.apply("c", changes_of(["u", ["s", 1, 0, None]]))
    findings.apply("b", changes_of(["v", ["s", 0, 0, None]]))
    findings.apply("b", changes_of(gone=("u", "v")))
    assert findings.moves == 0, "nothing was found of them"
    findings.apply("c", changes_of([T, ["s", 9, 0, None]]))
    assert findings.moves == 1
    findings.apply("c", changes_of([T, ["s", 9, 0, LAG]]))
    findings.apply("c", changes_of(gone=(T,)))
    assert findings.moves == 2


def test_changed_figures_are_reported_to_the_listener() -> None:
    findings, changes = Findings(), []
    findings.on_change = lambda *change: changes.append(change)
    findings.apply("b", changes_of([T, ["s", 9, 100, None], ["t", 1, 0, None]]))
    findings.apply("b", changes_of([T, ["s", 9, 200, LAG], ["t", 1, 0, None]]))
    findings.apply("b", changes_of([T, ["s", 9, 200, None]]))
    findings.forget("b")
    assert changes == [
        (T, "s", None, (9, 100)),
        (T, "t", None, (1, 0)),
        (T, "s", (9, 100), (9, 200)),
        (T, "t", (1, 0), None),
        (T, "s", (9, 200), None),
    ]
