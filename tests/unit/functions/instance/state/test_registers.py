"""Registers of the state: the last change in the order of the topic counts, also when it is read first."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.functions.instance.state.registers import (
    BASE,
    COUNT,
    VALUE,
    Born,
    LocalStore,
    register_name,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    made = LocalStore(tmp_path / "state")
    yield made
    made.close()


def test_a_later_change_counts_whatever_is_read_first(store: LocalStore) -> None:
    name = register_name(VALUE, "k")
    store.apply(name, b"new", Born(2, 0, 0), None)
    store.apply(name, b"old", Born(1, 9, 9), None)
    register = store.get(name)
    assert register is not None
    assert (register.value, register.version) == (b"new", 1)


def test_a_repeated_change_has_no_effect(store: LocalStore) -> None:
    name = register_name(COUNT, "k", "0")
    for _ in range(3):
        store.apply(name, b"5", Born(1, 1, 1), None)
    assert store.total("k") == 5
    assert store.live == 1


def test_a_counter_is_the_sum_of_all_who_count(store: LocalStore) -> None:
    store.apply(register_name(COUNT, "k", "0"), b"5", Born(1, 0, 0), None)
    store.apply(register_name(COUNT, "k", "1"), b"7", Born(1, 1, 0), None)
    store.apply(register_name(COUNT, "k", "0"), b"6", Born(1, 2, 0), None)
    store.apply(register_name(BASE, "k"), b"-3", Born(1, 3, 0), None)
    assert store.total("k") == 10
    assert store.total("other") is None


def test_a_deleted_register_is_no_item_and_its_deletion_is_remembered(store: LocalStore) -> None:
    name = register_name(VALUE, "k")
    store.apply(name, b"x", Born(1, 0, 0), None)
    store.apply(name, None, Born(1, 2, 0), None)
    store.apply(name, b"x", Born(1, 1, 0), 1)
    assert list(store.items()) == []
    assert store.live == 0


def test_items_are_the_registers_without_sums(store: LocalStore) -> None:
    store.apply(register_name(COUNT, "k", "0"), b"5", Born(1, 0, 0), None)
    store.apply(register_name(VALUE, "k"), b"", Born(1, 1, 0), None)
    names = {name: register.value for name, register in store.items()}
    assert names == {register_name(COUNT, "k", "0"): b"5", register_name(VALUE, "k"): b""}


@pytest.mark.parametrize("key", ["", "a\x00b", "x" * 4097])
def test_a_key_that_cannot_be_kept_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="state key: 1 to 4096 bytes"):
        register_name(VALUE, key)
