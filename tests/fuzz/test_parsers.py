"""Parsers of foreign bytes raise their named errors only: a short run, see ``run`` for long ones."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bookie.storage.logs.entry_log_format import decode_block
from engine.managed.stored.records import LogRecord
from tests.fuzz.disk import a_block, seal_block
from tests.fuzz.metadata import a_ledger
from tests.fuzz.mutate import Mutator
from tests.fuzz.oracle import execute
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

BY_NAME = {target.name: target for target in TARGETS}
MUTATIONS = 400


def test_every_target_has_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(TARGETS)


@pytest.mark.parametrize("name", BY_NAME)
def test_good_inputs_are_accepted_and_mutated_ones_refused_by_named_errors(name: str) -> None:
    target = BY_NAME[name]
    assert any(execute(target, seed) for seed in target.seeds)
    mutator = Mutator(target.seeds, target.words, seed=2)
    for _ in range(len(target.seeds) + MUTATIONS):
        execute(target, mutator.next())


@pytest.mark.parametrize("name", BY_NAME)
def test_arbitrary_bytes_are_refused_by_named_errors(name: str) -> None:
    target: Target = BY_NAME[name]

    @settings(
        max_examples=40,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.one_of(
            st.binary(max_size=300),
            st.tuples(st.sampled_from(target.seeds), st.binary(max_size=40)).map(b"".join),
            st.tuples(
                st.sampled_from(target.seeds), st.integers(0, 200), st.binary(max_size=9)
            ).map(lambda t: t[0][: t[1]] + t[2] + t[0][t[1] + len(t[2]) :]),
        )
    )
    def check(data: bytes) -> None:
        execute(target, data)

    check()


# Findings of fuzzing: an index error, recursion without end, gigabytes, texts and required fields taken for granted.
FOUND: list[tuple[str, bytes]] = [
    ("bookie racks", b'{"g":' + b"[" * 3000),
    ("bookie racks", b"[" * 100_000),
    ("bundles of a namespace", b'{"bundles":[1]}'),
    ("bundles of a namespace", b'{"bundles":{"boundaries":["0x10","0x0"]}}'),
    ("bookie racks", b'{"g":{"h:1":{"rack":"\\ud800"}}}'),
    ("bundles of a namespace", b"0.5"),
    ("bundles of a namespace", b'{"bundles":{"boundaries":2}}'),
    ("bundle owners", b'{"nativeUrl":' + b"[" * 3000),
    ("broker reports", b'{"startTimestamp":1e999}'),
    ("topic records", bytes.fromhex("0a021001")),  # a ledger without an id
    ("cursor records", bytes.fromhex("1204")),
    ("cursor records", bytes.fromhex("220a0a020804")),  # half a range
    (
        "ledger metadata",
        a_ledger().replace(b"\x38\x03\x42", b"\x30\x03\x42"),  # a segment that is a number
    ),
]


@pytest.mark.parametrize(("name", "data"), FOUND)
def test_earlier_findings_are_refused_by_named_errors(name: str, data: bytes) -> None:
    assert not execute(BY_NAME[name], data)


def test_texts_that_are_not_utf8_do_not_make_a_record_unreadable() -> None:
    """Java replaces such bytes, too; refusing the record would make the topic unavailable."""
    written = BY_NAME["topic records"].seeds[1].replace(b"\x0a\x01k", b"\x0a\x01\xfe")
    assert LogRecord.decode(written).properties == {"\ufffd": "v"}
    execute(BY_NAME["topic records"], written)


def test_a_block_whose_table_points_outside_it_is_not_decoded() -> None:
    data = seal_block(a_block()[:36] + b"\0\0\xf1\0" + a_block()[40:])
    execute(BY_NAME["entry log blocks"], data)
    assert decode_block(data) is None
    assert decode_block(a_block()) is not None
