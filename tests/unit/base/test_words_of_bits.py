"""Words of bits and integers are each other's inverse, in time linear in their number."""

from hypothesis import given
from hypothesis import strategies as st

from engine.base.ranges import bits_of, words_of


@given(st.integers(0, (1 << 200) - 1))
def test_words_are_signed_and_come_back(number: int) -> None:
    words = words_of(number)
    assert all(-(1 << 63) <= word < 1 << 63 for word in words)
    assert bits_of(words) == number
    assert bits_of([word % (1 << 64) for word in words] + [0]) == number


class Unshifted(int):
    """A number that must not be shifted: each shift copies all of it, and there would be one for each word."""

    def __and__(self, other: int) -> "Unshifted":
        return Unshifted(int(self) & other)

    def __lshift__(self, other: int) -> int:
        raise AssertionError("shifted")

    __rshift__ = __lshift__


def test_neither_way_shifts_the_whole_number_once_for_each_word() -> None:
    words = [1] * 1000
    assert bits_of([Unshifted(word) for word in words]).bit_count() == 1000
    assert words_of(Unshifted(bits_of(words))) == words
