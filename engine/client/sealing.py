"""End-to-end encryption as Pulsar's clients do it: payloads by a data key, the data key wrapped for each reader.

| field of MessageMetadata | holds |
|---|---|
| ``encryption_keys[].key`` | the name of a reader's key |
| ``encryption_keys[].value`` | the data key wrapped by that reader's public key |
| ``encryption_param`` | the nonce, 12 bytes |

The payload is compressed, then encrypted by AES-256-GCM, with the tag of 16 bytes behind the ciphertext. RSA keys wrap
by OAEP (SHA-1 in both places). Keys on elliptic curves wrap by ECIES in Bouncy Castle's form: ``ephemeral point
(uncompressed) | data key XOR K1 | HMAC-SHA1 by K2``, where K2 (16 bytes), then K1 are from KDF2 with SHA-1 of the point
and the shared secret.
"""

from collections.abc import Sequence
from pathlib import Path
from struct import Struct

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import constant_time, hashes, hmac, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.x963kdf import X963KDF

from engine.base.errors import MagnetarError
from engine.wire import pulsar_pb2 as pb

Public = rsa.RSAPublicKey | ec.EllipticCurvePublicKey
Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

DATA_KEY_BITS = 256
PAYLOADS_MAX = 1 << 20
"""Payloads encrypted by one data key before it is renewed."""
OPENERS_MAX = 100
"""Data keys that a consumer caches."""
NAME_MAX = 100
NONCE_BYTES = 12
TAG_BYTES = 16
PARAM_TAG = b"\x7a\x0c"
"""Tag and length of the field ``encryption_param``."""
_NONCE = Struct(">IQ")
_MAC_KEY_BYTES = 16
_MAC_BYTES = 20
_NO_LENGTH = bytes(8)
"""Length of the encoding parameter, which is absent."""
_OAEP = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)


class KeyMissingError(MagnetarError):
    """A key cannot be loaded; the message names it and the reason."""


class KeyFolder:
    """Keys in unencrypted PEM files ``<name>.public.pem`` and ``<name>.private.pem``. Read from disk at every
    request."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def public(self, name: str) -> Public:
        """Load a public key. Raises KeyMissingError."""
        try:
            key = serialization.load_pem_public_key(self._read(name, "public"))
        except ValueError as error:
            raise KeyMissingError(f"Key {name}: no public key in PEM: {error}") from error
        if not isinstance(key, Public):
            raise KeyMissingError(f"Key {name}: neither RSA nor on an elliptic curve")
        return key

    def private(self, name: str) -> Private:
        """Load a private key. Raises KeyMissingError."""
        try:
            key = serialization.load_pem_private_key(self._read(name, "private"), None)
        except (TypeError, ValueError) as error:
            raise KeyMissingError(f"Key {name}: no private key in PEM: {error}") from error
        if not isinstance(key, Private):
            raise KeyMissingError(f"Key {name}: neither RSA nor on an elliptic curve")
        return key

    def _read(self, name: str, kind: str) -> bytes:
        plain = name.replace("-", "").replace("_", "").replace(".", "")
        if not plain.isalnum() or not plain.isascii() or len(name) > NAME_MAX or name[0] == ".":
            text = f"at most {NAME_MAX} letters, digits, - _ . and no dot in front"
            raise KeyMissingError(f"Key {name[:NAME_MAX]!r}: {text}")
        try:
            return (self._folder / f"{name}.{kind}.pem").read_bytes()
        except OSError as error:
            raise KeyMissingError(f"Key {name}: no {kind} key: {error.strerror}") from error


class Sealer:
    """Encrypts the payloads of one producer. ``names``: the readers' keys."""

    def __init__(self, keys: KeyFolder, names: Sequence[str]) -> None:
        """Load the readers' public keys. Raises KeyMissingError."""
        self._readers = [(name, keys.public(name)) for name in names]
        self._renew()

    def _renew(self) -> None:
        data_key = AESGCM.generate_key(DATA_KEY_BITS)
        fields = pb.MessageMetadata()
        for name, public in self._readers:
            fields.encryption_keys.add(key=name, value=wrap(public, data_key))
        self._keys = fields.SerializePartialToString()
        self._cipher = AESGCM(data_key)
        self._sealed = 0

    @property
    def overhead(self) -> int:
        """Bytes that encryption adds to an entry."""
        return len(self._keys) + len(PARAM_TAG) + NONCE_BYTES + TAG_BYTES

    def seal(self, payload: bytes) -> tuple[bytes, bytes]:
        """Return fields of MessageMetadata and the encrypted payload.

        The nonce is a counter, so that it is used once with its key.
        """
        if self._sealed >= PAYLOADS_MAX:
            self._renew()
        self._sealed += 1
        nonce = _NONCE.pack(0, self._sealed)
        return self._keys + PARAM_TAG + nonce, self._cipher.encrypt(nonce, payload, None)


class Opener:
    """Decrypts the payloads of one consumer."""

    def __init__(self, keys: KeyFolder) -> None:
        self._keys = keys
        self._ciphers: dict[bytes, AESGCM] = {}
        """Ciphers by wrapped data key."""

    def opened(self, metadata: pb.MessageMetadata, payload: bytes) -> bytes | None:
        """Return the payload as it was before encryption; None when no key here decrypts it."""
        for wrapped in metadata.encryption_keys:
            cipher = self._ciphers.get(wrapped.value) or self._unwrapped(wrapped.key, wrapped.value)
            if cipher is None:
                continue
            try:
                return cipher.decrypt(metadata.encryption_param, payload, None)
            except (InvalidTag, ValueError):
                continue
        return None

    def _unwrapped(self, name: str, value: bytes) -> AESGCM | None:
        try:
            cipher = AESGCM(unwrap(self._keys.private(name), value))
        except (KeyMissingError, ValueError, InvalidSignature):
            return None
        if len(self._ciphers) >= OPENERS_MAX:
            self._ciphers.clear()
        self._ciphers[value] = cipher
        return cipher


def wrap(public: Public, data_key: bytes) -> bytes:
    """Return a data key wrapped for the holder of the private key."""
    if isinstance(public, rsa.RSAPublicKey):
        return public.encrypt(data_key, _OAEP)
    ephemeral = ec.generate_private_key(public.curve)
    point = _point(ephemeral.public_key())
    mac_key, stream = _derived(ephemeral.exchange(ec.ECDH(), public), point, len(data_key))
    hidden = _xor(data_key, stream)
    return point + hidden + _tag(mac_key, hidden)


def unwrap(private: Private, value: bytes) -> bytes:
    """Return the data key. Raises ValueError, InvalidSignature."""
    if isinstance(private, rsa.RSAPrivateKey):
        return private.decrypt(value, _OAEP)
    size = 1 + 2 * ((private.curve.key_size + 7) // 8)
    point, hidden, tag = value[:size], value[size:-_MAC_BYTES], value[-_MAC_BYTES:]
    other = ec.EllipticCurvePublicKey.from_encoded_point(private.curve, point)
    mac_key, stream = _derived(private.exchange(ec.ECDH(), other), point, len(hidden))
    if not constant_time.bytes_eq(_tag(mac_key, hidden), tag):
        raise ValueError("the wrapped key is not for this key")
    return _xor(hidden, stream)


def _point(public: ec.EllipticCurvePublicKey) -> bytes:
    form = serialization.PublicFormat.UncompressedPoint
    return public.public_bytes(serialization.Encoding.X962, form)


def _derived(secret: bytes, point: bytes, size: int) -> tuple[bytes, bytes]:
    derived = X963KDF(hashes.SHA1(), _MAC_KEY_BYTES + size, None).derive(point + secret)
    return derived[:_MAC_KEY_BYTES], derived[_MAC_KEY_BYTES:]


def _xor(data: bytes, stream: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(data, stream, strict=True))


def _tag(key: bytes, hidden: bytes) -> bytes:
    mac = hmac.HMAC(key, hashes.SHA1())
    mac.update(hidden + _NO_LENGTH)
    return mac.finalize()
