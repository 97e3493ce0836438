"""Entry envelope and keys against computed vectors, and damage of every byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ledger.digest import Digest, DigestType, Header, header_of, mac_key, master_key

HEADER = Header(5, 0, -1, 5)
HEADER_HEX = "00000000000000050000000000000000ffffffffffffffff0000000000000005"
DIGESTS = {
    DigestType.CRC32C: "b548f369",
    DigestType.CRC32: "00000000c126e452",
    DigestType.HMAC: "08e6cc599dc4a0ba10071beef38ae78bc76d7bae",
    DigestType.DUMMY: "",
}


def test_keys_are_derived_from_passwords() -> None:
    assert master_key(b"").hex() == "850bf1071c5e3d8c24235676f8816ae0cbe2f14f"
    assert mac_key(b"").hex() == "347ead6348e936507920c15d2ae8266ac6ce9b49"
    assert master_key(b"passwd").hex() == "9596625852f7fafc2c9cf0f9f7f3e5995206452b"
    assert mac_key(b"passwd").hex() == "6c5d50401aaaf61cb32a1f11f123999a845fb706"


@pytest.mark.parametrize("kind", list(DigestType))
def test_sealed_entries_are_byte_exact(kind: DigestType) -> None:
    entry = Digest(kind, b"").seal(HEADER, b"hello")
    assert entry.hex() == HEADER_HEX + DIGESTS[kind] + b"hello".hex()
    assert header_of(entry) == HEADER


@pytest.mark.parametrize("kind", [DigestType.CRC32, DigestType.CRC32C, DigestType.HMAC])
def test_every_flipped_byte_and_every_truncation_is_detected(kind: DigestType) -> None:
    digest = Digest(kind, b"pw")
    entry = digest.seal(HEADER, b"payload")
    buf = b"##" + entry + b"##"
    assert digest.check(buf, 2, 2 + len(entry), 5, 0)
    assert not digest.check(buf, 2, 2 + len(entry), 5, 1)
    assert not digest.check(buf, 2, 2 + len(entry), 6, 0)
    for i in range(len(entry)):
        damaged = bytearray(entry)
        damaged[i] ^= 0x40
        assert not digest.check(bytes(damaged), 0, len(entry), 5, 0)
        assert not digest.check(entry, 0, i, 5, 0)


@given(
    kind=st.sampled_from([DigestType.CRC32, DigestType.CRC32C, DigestType.HMAC]),
    payloads=st.lists(st.one_of(st.binary(max_size=30), st.just(b"x" * 600)), max_size=6),
    at=st.integers(0, 1 << 20),
    flip=st.integers(0, 255),
    cut=st.integers(0, 40),
    first=st.integers(0, 1 << 62),
)
def test_a_batch_gives_intact_entries_up_to_the_first_damage(
    kind: DigestType, payloads: list[bytes], at: int, flip: int, cut: int, first: int
) -> None:
    digest = Digest(kind, b"pw")
    body = bytearray(b"before")
    for i, payload in enumerate(payloads):
        entry = digest.seal(Header(5, first + i, -1, 0), payload)
        body += len(entry).to_bytes(4, "big") + entry
    whole = bytes(body)
    spans, intact = digest.check_batch(whole, 6, len(whole), 5, first)
    entries = [whole[a:b] for a, b in zip(spans[::2], spans[1::2], strict=True)]
    assert (entries, intact) == (payloads, True)
    if payloads:
        body[6 + at % (len(body) - 6)] ^= flip
    damaged = bytes(body[: max(6, len(body) - cut)])
    spans, intact = digest.check_batch(damaged, 6, len(damaged), 5, first)
    entries = [damaged[a:b] for a, b in zip(spans[::2], spans[1::2], strict=True)]
    assert entries == payloads[: len(entries)]
    taken = sum(map(len, entries)) + len(entries) * (4 + digest.overhead)
    assert intact == (taken == len(damaged) - 6)
    assert not digest.check_batch(whole, 6, len(whole), 6, first)[0]
    assert not digest.check_batch(whole, 6, len(whole), 5, first + 1)[0]
