"""Values gathered from the buffers that they were read into."""

import numpy as np

from spark_jobs.pulsar_source.opening.values import ValueBuffer


def test_values_of_buffers_and_single_ones_keep_their_order() -> None:
    values = ValueBuffer()
    buf, other = b"-one-two--", b"three"
    values.add_spans(buf, np.array([1]), np.array([4]))
    values.add_spans(buf, np.array([5, 8]), np.array([8, 8]), np.array([True, False]))
    values.add(b"single")
    values.add(None)
    values.add_spans(other, np.array([0]), np.array([5]))
    assert values.held == 17
    assert values.taken().to_pylist() == [b"one", b"two", None, b"single", None, b"three"]


def test_a_buffer_may_be_used_again_from_its_beginning() -> None:
    values = ValueBuffer()
    for _ in range(2):
        values.add_spans(b"ab", np.array([0, 1]), np.array([1, 2]))
    assert values.taken().to_pylist() == [b"a", b"b"] * 2


def test_without_values_the_array_is_empty() -> None:
    assert ValueBuffer().taken().to_pylist() == []
