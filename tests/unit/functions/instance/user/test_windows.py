"""Windows by count and time, sliding and by event time: what each contains and when a message leaves for good."""

from engine.functions.instance.instance_plan import WindowPlan
from engine.functions.instance.user.windows import WindowCall, Windows


def shown(calls: list[WindowCall[int]]) -> list[tuple[list[int], list[int]]]:
    return [(call.items, call.leaving) for call in calls]


def added(windows: Windows[int], *items: int) -> list[tuple[list[int], list[int]]]:
    return shown([call for item in items for call in windows.add(item, item)])


def test_a_tumbling_window_by_count_releases_all_of_its_messages() -> None:
    windows: Windows[int] = Windows(WindowPlan(count=3))
    assert added(windows, 1, 2, 3, 4, 5, 6, 7) == [([1, 2, 3], [1, 2, 3]), ([4, 5, 6], [4, 5, 6])]
    assert len(windows) == 1


def test_a_sliding_window_by_count_keeps_what_the_next_contains() -> None:
    windows: Windows[int] = Windows(WindowPlan(count=3, slide_count=1))
    assert added(windows, 1, 2, 3, 4) == [
        ([1], []),
        ([1, 2], []),
        ([1, 2, 3], [1]),
        ([2, 3, 4], [2]),
    ]


def test_a_tumbling_window_by_time_ends_with_its_interval() -> None:
    windows: Windows[int] = Windows(WindowPlan(length_ms=100))
    assert added(windows, 10, 20, 90) == []
    assert shown(windows.tick(108)) == []
    assert shown(windows.tick(109)) == [([10, 20, 90], [10, 20, 90])]
    assert shown(windows.tick(500)) == []


def test_a_sliding_window_by_time_contains_its_length() -> None:
    windows: Windows[int] = Windows(WindowPlan(length_ms=100, slide_ms=50))
    added(windows, 10)
    assert shown(windows.tick(60)) == [([10], [])]
    added(windows, 70)
    assert shown(windows.tick(110)) == [([10, 70], [10])]


def test_a_window_of_a_count_that_slides_by_time_keeps_the_last_messages() -> None:
    windows: Windows[int] = Windows(WindowPlan(count=2, slide_ms=10))
    added(windows, 1, 2, 3)
    assert shown(windows.tick(10)) == [([2, 3], [1])]
    added(windows, 12)
    assert shown(windows.tick(20)) == [([3, 12], [2])]


def test_a_window_of_a_time_that_slides_by_count_drops_older_messages() -> None:
    windows: Windows[int] = Windows(WindowPlan(length_ms=10, slide_count=2))
    assert added(windows, 1, 5, 12, 13) == [([1, 5], []), ([5, 12, 13], [1])]


EVENT_TIME = WindowPlan(length_ms=10, slide_ms=10, timestamps="t.T", max_lag_ms=5)


def test_windows_by_event_time_wait_for_the_watermark() -> None:
    windows: Windows[int] = Windows(EVENT_TIME)
    assert added(windows, 3, 12, 8) == []
    assert shown(windows.tick(0)) == []
    added(windows, 15)
    assert shown(windows.tick(0)) == [([3, 8], [3, 8])]


def test_a_message_behind_the_watermark_is_late() -> None:
    windows: Windows[int] = Windows(EVENT_TIME)
    added(windows, 25)
    assert not windows.is_late(19)
    windows.tick(0)
    assert windows.is_late(20)
    assert not windows.is_late(21)


def test_messages_of_one_event_time_window_are_in_order_of_their_time() -> None:
    windows: Windows[int] = Windows(EVENT_TIME)
    added(windows, 9, 1, 5, 30)
    assert windows.tick(0)[0].items == [1, 5, 9]


def test_windows_by_event_time_may_overlap() -> None:
    windows: Windows[int] = Windows(WindowPlan(length_ms=20, slide_ms=10, timestamps="t.T"))
    added(windows, 5, 15, 30)
    assert [call.items for call in windows.tick(0)] == [[5], [5, 15], [15, 30]]


def test_windows_by_event_time_may_be_counted() -> None:
    windows: Windows[int] = Windows(WindowPlan(count=2, timestamps="t.T"))
    added(windows, 4, 1, 3, 9)
    assert shown(windows.tick(0)) == [([1, 3], [1, 3]), ([4, 9], [4, 9])]


def test_the_next_window_begins_with_a_message_after_an_empty_time() -> None:
    windows: Windows[int] = Windows(WindowPlan(length_ms=10))
    added(windows, 1)
    windows.tick(11)
    added(windows, 1000)
    assert shown(windows.tick(1008)) == []
    assert shown(windows.tick(1009)) == [([1000], [1000])]
