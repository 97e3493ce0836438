"""Records are settled once, and positions grow only over what is acknowledged without a gap."""

from engine.functions.connectors.spi import AckedPrefix, Record


def test_a_record_is_settled_once() -> None:
    seen: list[tuple[Record, BaseException | None]] = []
    record = Record(b"x", on_settled=lambda record, error: seen.append((record, error)))
    record.ack()
    record.fail(ValueError("late"))
    record.ack()
    assert seen == [(record, None)]
    error = ValueError("no")
    failed = Record(b"y", on_settled=lambda record, error: seen.append((record, error)))
    failed.fail(error)
    assert seen[1] == (failed, error)


def test_a_position_waits_for_those_before_it() -> None:
    prefix = AckedPrefix(10)
    for position in (20, 30, 40):
        prefix.read(position)
    prefix.ack(30)
    assert (prefix.position, prefix.pending) == (10, 3)
    prefix.ack(20)
    assert (prefix.position, prefix.pending) == (30, 1)
    prefix.ack(40)
    assert (prefix.position, prefix.pending) == (40, 0)
