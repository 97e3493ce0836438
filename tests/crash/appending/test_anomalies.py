from tests.crash.appending.anomalies import Appending, Outcome, anomalies

Lists = dict[str, list[str]]


def txn(name: str, reads: Lists, appends: Lists, outcome: Outcome = Outcome.COMMITTED) -> Appending:
    return Appending(name, reads, appends, outcome)


def kinds(history: list[Appending], **seen: list[list[str]]) -> set[str]:
    return set(anomalies(history, seen))


GOOD = [
    txn("a", {"x": [], "y": []}, {"x": ["1", "2"], "y": ["3"]}),
    txn("b", {"x": ["1", "2"]}, {"x": ["4"]}, Outcome.ABORTED),
    txn("c", {"x": ["1", "2"], "y": ["3"]}, {"x": ["5"], "y": ["6"]}, Outcome.UNKNOWN),
]


def test_a_history_in_order_has_no_anomaly() -> None:
    x, y = [["1", "2"], ["1", "2", "5"]], [["3"], ["3", "6"]]
    assert kinds(GOOD, x=x, y=y) == set()
    assert kinds(GOOD[:2], x=x[:1], y=y[:1]) == set()


def test_aborted_values_are_not_read() -> None:
    assert "G1a" in kinds(GOOD, x=[["1", "2", "4"]], y=[["3"]])


def test_an_append_in_between_is_not_read() -> None:
    assert "G1b" in kinds(GOOD, x=[["1"], ["1", "2"]], y=[["3"]])


def test_committed_appends_are_there_at_the_end_once() -> None:
    assert kinds(GOOD[:1], x=[["1", "2"]], y=[[]]) == {"lost append"}
    assert "duplicate" in kinds(GOOD[:1], x=[["1", "2", "2"]], y=[["3"]])
    assert "unwritten" in kinds(GOOD[:1], x=[["1", "2", "9"]], y=[["3"]])


def test_two_changes_of_the_same_list_are_a_lost_update() -> None:
    two = [txn("a", {"x": []}, {"x": ["1"]}), txn("b", {"x": []}, {"x": ["2"]})]
    anomalous = kinds(two, x=[["1"], ["2"]])
    assert {"lost update", "incompatible order"} <= anomalous


def test_cycles_are_found_by_the_kind_of_their_dependencies() -> None:
    a = txn("a", {}, {"x": ["1"], "y": ["4"]})
    b = txn("b", {}, {"x": ["2"], "y": ["3"]})
    assert kinds([a, b], x=[["1", "2"]], y=[["3", "4"]]) == {"G0"}
    a = txn("a", {"y": ["2"]}, {"x": ["1"]})
    b = txn("b", {"x": ["1"]}, {"y": ["2"]})
    assert kinds([a, b], x=[["1"]], y=[["2"]]) == {"G1c"}
    a = txn("a", {"y": []}, {"x": ["1"]})
    b = txn("b", {"x": []}, {"y": ["2"]})
    assert kinds([a, b], x=[["1"]], y=[["2"]]) == {"G2"}
