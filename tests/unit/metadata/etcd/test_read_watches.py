"""Watches of reads, by the revisions of answers and changes in any order of arrival."""

from engine.metadata.etcd.read_watches import ReadWatches


class Called:
    def __init__(self) -> None:
        self.paths: list[str] = []
        self.watches = ReadWatches(lambda watch, path, _: watch(path))

    def __call__(self, path: str) -> None:
        self.paths.append(path)


def test_a_change_behind_the_answer_calls_once() -> None:
    called = Called()
    called.watches.end("/a", called, called.watches.begin("/a", called), 5)
    called.watches.changed("/a", 5)
    assert called.paths == []
    called.watches.changed("/a", 6)
    called.watches.changed("/a", 7)
    assert called.paths == ["/a"]


def test_a_change_before_the_answer_is_judged_by_the_answer() -> None:
    for answered, calls in ((5, ["/a"]), (6, []), (0, ["/a"])):
        called = Called()
        reading = called.watches.begin("/a", called)
        called.watches.changed("/a", 6)
        assert called.paths == []
        called.watches.end("/a", called, reading, answered)
        assert called.paths == calls


def test_the_oldest_answer_counts_when_reads_share_a_watch() -> None:
    called = Called()
    first, second = called.watches.begin("/a", called), called.watches.begin("/a", called)
    called.watches.end("/a", called, second, 9)
    called.watches.changed("/a", 8)
    called.watches.end("/a", called, first, 7)
    assert called.paths == ["/a"]


def test_an_answer_behind_the_end_of_its_watch_calls_no_watcher() -> None:
    called = Called()
    for forget in (lambda: called.watches.remove("/a", called), called.watches.clear):
        reading = called.watches.begin("/a", called)
        forget()
        called.watches.changed("/a", 6)
        called.watches.end("/a", called, reading, 5)
    assert called.paths == []
