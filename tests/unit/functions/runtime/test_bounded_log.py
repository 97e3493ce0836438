"""Logs of instances: two files, whatever is written."""

from pathlib import Path

from engine.functions.runtime.bounded_log import BoundedLog


def test_the_log_keeps_two_files_of_bounded_size(tmp_path: Path) -> None:
    log = BoundedLog(tmp_path, bytes_max=100)
    for number in range(100):
        log.write(b"line %03d\n" % number)
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == 2
    assert max(sizes) <= 100
    assert log.tail(12).splitlines()[-12:] == [f"line {number:03d}" for number in range(88, 100)]
    log.close()


def test_a_log_goes_on_after_a_restart(tmp_path: Path) -> None:
    first = BoundedLog(tmp_path)
    first.write(b"before\n")
    first.close()
    second = BoundedLog(tmp_path)
    second.write(b"after\n")
    assert second.tail(5) == "before\nafter"
    second.close()
