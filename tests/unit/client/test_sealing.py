"""Payloads that only the holder of a private key can read."""

from base64 import b64decode
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.base.ids import Position
from engine.client import sealing
from engine.client.consuming.incoming import open_entry
from engine.client.producing.outgoing import EntryBuilder, OutgoingMessage
from engine.client.sealing import KeyFolder, KeyMissingError, Opener, Sealer
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import split_entry
from engine.wire.compression import LZ4, NONE

PEM = serialization.Encoding.PEM
CURVES = [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1(), ec.SECP256K1()]
JAVA_KEY = (
    "-----BEGIN EC PRIVATE KEY-----\n"
    "MHcCAQEEINf5dM8vIkubtbbdgxJg/CGKPk6krGa1PReL7R/sZUyeoAoGCCqGSM49\n"
    "AwEHoUQDQgAENLuUxkJOWHPPsj3b27NbfU8fduIrAtDz3wby2pCkdNu886hvIEjO\n"
    "3Xj9pmMz0ATqMAUKz08hhdvPg6UyJdubCA==\n"
    "-----END EC PRIVATE KEY-----\n"
)
JAVA_WRAPPED = (
    "BKRp0CCyUBL2X8okVze2O2mUFNtcdOawO0mvSaJr4LYzZsgJV2PVcRZaXIlwUYu/ymTEwwinlPElXfvd"
    "zhAksOYs5rDvQYVQS4kn2hPoIWQhE+PyLI0cet+XAtCYS0vHMMTMJxI4mpDhAvrsnlFpADIeCaZT"
)
JAVA_PARAM = "VSzwY6Uj/vKfuxnX"
JAVA_SEALED = "NGSlL0cQkyQgUsTt0oTt/nAebRM3f7YnLg=="
"""Payload that the Java client 4.0.8 published for that key, which serves only this test: a batch of one."""


def put(folder: Path, name: str, private: sealing.Private) -> None:
    (folder / f"{name}.private.pem").write_bytes(
        private.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    public = private.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.public.pem").write_bytes(public)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("keys")
    put(made, "rsa", rsa.generate_private_key(65537, 2048))
    for curve in CURVES:
        put(made, curve.name, ec.generate_private_key(curve))
    (made / "broken.public.pem").write_text("nothing")
    return made


def metadata(fields: bytes) -> pb.MessageMetadata:
    return pb.MessageMetadata.FromString(b"\x0a\x01p\x10\x01\x18\x01" + fields)


@pytest.mark.parametrize("name", ["rsa", *(curve.name for curve in CURVES)])
def test_a_message_encrypted_for_a_key_is_decrypted_only_with_it(
    folder: Path, tmp_path: Path, name: str
) -> None:
    fields, sealed = Sealer(KeyFolder(folder), [name]).seal(b"secret")
    header = metadata(fields)
    assert b"secret" not in sealed
    assert Opener(KeyFolder(folder)).opened(header, sealed) == b"secret"
    assert Opener(KeyFolder(tmp_path)).opened(header, sealed) is None
    other = (
        rsa.generate_private_key(65537, 2048)
        if name == "rsa"
        else ec.generate_private_key(ec.SECP256R1())
    )
    put(tmp_path, name, other)
    assert Opener(KeyFolder(tmp_path)).opened(header, sealed) is None
    damaged = bytes([sealed[0] ^ 1]) + sealed[1:]
    assert Opener(KeyFolder(folder)).opened(header, damaged) is None


def test_each_of_several_readers_opens_it_and_no_nonce_is_repeated(folder: Path) -> None:
    sealer = Sealer(KeyFolder(folder), ["rsa", "secp256r1"])
    sent = [sealer.seal(b"%d" % n) for n in range(5)]
    headers = [metadata(fields) for fields, _ in sent]
    assert [key.key for key in headers[0].encryption_keys] == ["rsa", "secp256r1"]
    assert len({header.encryption_param for header in headers}) == 5
    assert {len(header.encryption_param) for header in headers} == {sealing.NONCE_BYTES}
    opener = Opener(KeyFolder(folder))
    for n, (about, (_, sealed)) in enumerate(zip(headers, sent, strict=True)):
        assert opener.opened(about, sealed) == b"%d" % n
        del about.encryption_keys[0]
        assert Opener(KeyFolder(folder)).opened(about, sealed) == b"%d" % n


def test_a_key_that_the_java_client_wrapped_on_a_curve_is_unwrapped(tmp_path: Path) -> None:
    (tmp_path / "ec1.private.pem").write_text(JAVA_KEY)
    about = pb.MessageMetadata(encryption_param=b64decode(JAVA_PARAM))
    about.encryption_keys.add(key="ec1", value=b64decode(JAVA_WRAPPED))
    opened = Opener(KeyFolder(tmp_path)).opened(about, b64decode(JAVA_SEALED))
    assert opened is not None
    assert opened.endswith(b"from java")


def test_a_data_key_is_renewed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "PAYLOADS_MAX", 2)
    sealer = Sealer(KeyFolder(folder), ["secp256r1"])
    wrapped = [metadata(sealer.seal(b"")[0]).encryption_keys[0].value for _ in range(5)]
    assert len(set(wrapped)) == 3


@pytest.mark.parametrize(
    "name", ["none", "", ".", "..", "../rsa", "a/b", "a\0b", "é", "x" * 101, "broken", ".rsa"]
)
def test_a_key_that_cannot_be_had_is_named(folder: Path, name: str) -> None:
    with pytest.raises(KeyMissingError, match="Key "):
        Sealer(KeyFolder(folder), [name])


@pytest.mark.parametrize("codec", [NONE, LZ4])
def test_entries_are_packed_then_sealed_and_fit_what_the_broker_takes(
    folder: Path, codec: int
) -> None:
    builder = EntryBuilder("p", codec, Sealer(KeyFolder(folder), ["rsa"]))
    opener = Opener(KeyFolder(folder))
    messages = [OutgoingMessage(b"ab" * 500, key="k"), OutgoingMessage(b"c")]
    for entry, contents in (
        (builder.single(messages[0], 1, 2), [b"ab" * 500]),
        (builder.batch(messages, 1, 2), [b"ab" * 500, b"c"]),
    ):
        _, about, payload = split_entry(entry)
        opened = opener.opened(about, bytes(payload))
        assert opened is not None
        opened_messages = open_entry(None, Position(1, 2), 0, about, opened)
        assert [message.content for message in opened_messages] == contents
    large = OutgoingMessage(bytes(range(256)) * 40)
    chunks = EntryBuilder("p", NONE, Sealer(KeyFolder(folder), ["rsa"])).chunks(large, 1, 2, 4_000)
    assert max(map(len, chunks)) <= 4_000
    parts = [opener.opened(about, bytes(payload)) for _, about, payload in map(split_entry, chunks)]
    assert b"".join(part or b"" for part in parts) == large.payload


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None
)
@given(st.binary(max_size=200), st.binary(max_size=200), st.binary(max_size=20))
def test_anything_is_opened_or_not(
    folder: Path, value: bytes, payload: bytes, param: bytes
) -> None:
    about = pb.MessageMetadata(encryption_param=param)
    for name in ("rsa", "secp256r1"):
        about.encryption_keys.add(key=name, value=value)
    assert Opener(KeyFolder(folder)).opened(about, payload) is None
