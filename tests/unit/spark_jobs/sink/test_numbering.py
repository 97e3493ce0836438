"""Names and numbers of rows: equal in each attempt, rising from batch to batch, apart where rows could be confused."""

import pytest

from spark_jobs.pulsar_sink.numbering import BATCHES_MAX, ROWS_MAX, NumberingError, TaskNumbers


def of(batch: int, partition: int = 0, owner: str = "query") -> TaskNumbers:
    return TaskNumbers("spark", owner, partition, batch)


def test_numbers_rise_from_batch_to_batch_and_fit_64_bits() -> None:
    assert of(0).first == 0
    assert of(1).first == of(0).first + ROWS_MAX == 1 << 32
    assert of(BATCHES_MAX - 1).first + ROWS_MAX - 1 == (1 << 63) - 1
    with pytest.raises(NumberingError, match=f"beyond {BATCHES_MAX - 1}"):
        _ = of(BATCHES_MAX).first


def test_names_differ_by_query_partition_and_number_of_topic_partitions() -> None:
    names = {
        of(0, partition, owner).producer_name(count)
        for partition in (0, 1)
        for owner in ("a", "b")
        for count in (0, 1, 4)
    }
    assert len(names) == 12
    assert of(3).producer_name(4) == of(7).producer_name(4)


@pytest.mark.parametrize(
    ("stored", "rows"),
    [
        (-1, 0),
        (of(4).first + 7, 0),
        (of(5).first - 1, 0),
        (of(5).first, 1),
        (of(5).first + 99, 100),
    ],
)
def test_rows_that_an_earlier_attempt_stored_are_known(stored: int, rows: int) -> None:
    assert of(5).stored_rows(stored) == rows


def test_a_batch_older_than_a_stored_one_is_refused_instead_of_left_out() -> None:
    with pytest.raises(NumberingError, match="batch 5 is older than batch 6"):
        of(5).stored_rows(of(6).first)
    assert of(5).stored_rows(of(6).first - 1) == ROWS_MAX
