"""Keys that sign and verify tokens, and the algorithms of each: HMAC, RSA (PKCS#1 and PSS), ECDSA. Pure."""

import hmac
from collections.abc import Mapping
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

RSA_BITS_MIN = 2048
RSA_BITS_MAX = 16384
SECRET_BITS_MIN = 256
_HASHES: Mapping[str, hashes.HashAlgorithm] = {
    "256": hashes.SHA256(),
    "384": hashes.SHA384(),
    "512": hashes.SHA512(),
}
_CURVES: Mapping[str, tuple[str, int]] = {
    "secp256r1": ("ES256", 32),
    "secp384r1": ("ES384", 48),
    "secp521r1": ("ES512", 66),
}
"""Algorithm and bytes of a number, by the name of the curve."""
SECRET_ALGORITHMS = ("HS256", "HS384", "HS512")
RSA_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
EC_ALGORITHMS = ("ES256", "ES384", "ES512")
ALGORITHMS = (*SECRET_ALGORITHMS, *RSA_ALGORITHMS, *EC_ALGORITHMS)


class VerificationKey(Protocol):
    """A key that checks signatures by the algorithms of its own kind."""

    @property
    def algorithms(self) -> tuple[str, ...]: ...

    @property
    def canonical(self) -> bytes:
        """The bytes of the key, the same for each form of it; those of a secret key are secret."""
        ...

    def verifies(self, algorithm: str, data: bytes, signature: bytes) -> bool:
        """Return whether the signature is valid. ``algorithm`` is one of the key's."""
        ...


class SigningKey(Protocol):
    """A key that signs by the algorithms of its own kind, the usual one first."""

    @property
    def algorithms(self) -> tuple[str, ...]: ...

    def sign(self, algorithm: str, data: bytes) -> bytes:
        """Return the signature. Raises ValueError when ``algorithm`` is not one of the key's."""
        ...


class SecretKey:
    """A secret for HMAC, which signs and verifies. It is as long as the hash, or longer."""

    def __init__(self, secret: bytes) -> None:
        """Raise ValueError for a secret that is too short."""
        bits = len(secret) * 8
        if bits < SECRET_BITS_MIN:
            raise ValueError(
                f"a secret key has at least {SECRET_BITS_MIN} bits, not {len(secret)} bytes"
            )
        self._secret = self.canonical = secret
        self.algorithms = tuple(name for name in SECRET_ALGORITHMS if bits >= int(name[2:]))

    def verifies(self, algorithm: str, data: bytes, signature: bytes) -> bool:
        return hmac.compare_digest(self._digest(algorithm, data), signature)

    def sign(self, algorithm: str, data: bytes) -> bytes:
        _check_kind(algorithm, self.algorithms, "a secret key of this length")
        return self._digest(algorithm, data)

    def _digest(self, algorithm: str, data: bytes) -> bytes:
        return hmac.digest(self._secret, data, f"sha{algorithm[2:]}")


class RsaPublicKey:
    """The public half of an RSA key."""

    algorithms = RSA_ALGORITHMS

    def __init__(self, key: rsa.RSAPublicKey) -> None:
        """Raise ValueError for a key whose length is out of range."""
        _check_rsa_bits(key.key_size)
        self._key = key
        self.canonical = _spki(key)

    def verifies(self, algorithm: str, data: bytes, signature: bytes) -> bool:
        try:
            self._key.verify(signature, data, _padding(algorithm), _HASHES[algorithm[2:]])
        except InvalidSignature:
            return False
        return True


class RsaPrivateKey:
    """An RSA key that signs."""

    algorithms = RSA_ALGORITHMS

    def __init__(self, key: rsa.RSAPrivateKey) -> None:
        """Raise ValueError for a key whose length is out of range."""
        _check_rsa_bits(key.key_size)
        self._key = key

    def sign(self, algorithm: str, data: bytes) -> bytes:
        _check_kind(algorithm, self.algorithms, "an RSA key")
        return self._key.sign(data, _padding(algorithm), _HASHES[algorithm[2:]])


class EcPublicKey:
    """The public half of a key on one of the three curves of NIST; each curve has one algorithm."""

    def __init__(self, key: ec.EllipticCurvePublicKey) -> None:
        """Raise ValueError for another curve."""
        algorithm, self._width = _curve(key.curve)
        self._key = key
        self.algorithms = (algorithm,)
        self.canonical = _spki(key)

    def verifies(self, algorithm: str, data: bytes, signature: bytes) -> bool:
        width = self._width
        if len(signature) != 2 * width:
            return False
        r, s = int.from_bytes(signature[:width], "big"), int.from_bytes(signature[width:], "big")
        try:
            self._key.verify(encode_dss_signature(r, s), data, ec.ECDSA(_HASHES[algorithm[2:]]))
        except InvalidSignature:
            return False
        return True


class EcPrivateKey:
    """A key on one of the three curves of NIST that signs."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        """Raise ValueError for another curve."""
        algorithm, self._width = _curve(key.curve)
        self.algorithms = (algorithm,)
        self._key = key

    def sign(self, algorithm: str, data: bytes) -> bytes:
        _check_kind(algorithm, self.algorithms, "this EC key")
        signature = self._key.sign(data, ec.ECDSA(_HASHES[algorithm[2:]]))
        r, s = decode_dss_signature(signature)
        return r.to_bytes(self._width, "big") + s.to_bytes(self._width, "big")


def public_key(key: object) -> VerificationKey:
    """Return the verification key of a public key of ``cryptography``. Raises ValueError for another kind."""
    if isinstance(key, rsa.RSAPublicKey):
        return RsaPublicKey(key)
    if isinstance(key, ec.EllipticCurvePublicKey):
        return EcPublicKey(key)
    raise ValueError("only RSA and EC keys are supported")


def private_key(key: object) -> SigningKey:
    """Return the signing key of a private key of ``cryptography``. Raises ValueError for another kind."""
    if isinstance(key, rsa.RSAPrivateKey):
        return RsaPrivateKey(key)
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return EcPrivateKey(key)
    raise ValueError("only RSA and EC keys are supported")


def _spki(key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _padding(algorithm: str) -> padding.AsymmetricPadding:
    if algorithm.startswith("RS"):
        return padding.PKCS1v15()
    chosen = _HASHES[algorithm[2:]]
    return padding.PSS(padding.MGF1(chosen), chosen.digest_size)


def _curve(curve: ec.EllipticCurve) -> tuple[str, int]:
    try:
        return _CURVES[curve.name]
    except KeyError:
        raise ValueError(f"curve {curve.name} is not one of {', '.join(_CURVES)}") from None


def _check_kind(algorithm: str, algorithms: tuple[str, ...], what: str) -> None:
    if algorithm not in algorithms:
        raise ValueError(f"{what} signs by {', '.join(algorithms)}, not by {algorithm}")


def _check_rsa_bits(bits: int) -> None:
    if not RSA_BITS_MIN <= bits <= RSA_BITS_MAX:
        raise ValueError(f"an RSA key has {RSA_BITS_MIN} to {RSA_BITS_MAX} bits, not {bits}")
