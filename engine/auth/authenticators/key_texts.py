"""Keys as settings and commands state them: ``file:``, ``data:``, the name of a file, or Base64; DER or PEM.

Files are read at process start and by commands alone, so blocking calls are acceptable.
"""

import base64
import binascii
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    load_der_private_key,
    load_der_public_key,
    load_pem_private_key,
    load_pem_public_key,
)
from cryptography.x509 import load_pem_x509_certificate

from engine.auth.authenticators.provider import ProviderError
from engine.auth.authenticators.signing_keys import (
    SecretKey,
    SigningKey,
    VerificationKey,
    private_key,
    public_key,
)
from engine.base.disk.secret_files import check_secret

KEY_BYTES_MAX = 1 << 20
PEM = b"-----BEGIN "
_KEY_TEXTS = (PEM, b"ssh-", b"ecdsa-sha2-")
"""Beginnings of the texts of public and private keys."""
_UNUSABLE = (ValueError, TypeError, UnsupportedAlgorithm)


def read_bytes(text: str, setting: str, *, is_secret: bool = False) -> bytes:
    """Return the bytes that a text stands for: ``file:///path``, ``file:relative``, ``data:;base64,…``, the name of an
    existing file, else plain Base64. The mode of a file that ``is_secret`` is checked.

    Raises ProviderError, which names ``setting`` and not the text.
    """
    text = text.strip()
    if text.startswith("data:"):
        return _of_data_url(text, setting)
    if text.startswith("file:"):
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost"):
            raise ProviderError(f"{setting} names a file of another host: write file:///path")
        return _of_file(Path(unquote_to_bytes(parts.path).decode()), setting, is_secret)
    try:
        is_file = Path(text).is_file()
    except (OSError, ValueError):
        is_file = False
    return _of_file(Path(text), setting, is_secret) if is_file else _of_base64(text, setting)


def secret_key(text: str, setting: str) -> SecretKey:
    """Return the secret that ``text`` states. Raises ProviderError, also for a key of another kind, which anybody may
    know."""
    data = read_bytes(text, setting, is_secret=True)
    if data.startswith(_KEY_TEXTS) or b'"kty"' in data or _is_der_key(data):
        raise ProviderError(f"{setting} is a public or private key, not a secret key")
    try:
        return SecretKey(data)
    except ValueError as error:
        raise ProviderError(f"{setting}: {error}") from error


def verification_key(text: str, setting: str) -> VerificationKey:
    """Return the public key that ``text`` states, as SubjectPublicKeyInfo or certificate. Raises ProviderError."""
    data = read_bytes(text, setting)
    try:
        if data.startswith(b"-----BEGIN CERTIFICATE"):
            return public_key(load_pem_x509_certificate(data).public_key())
        loaded = load_pem_public_key(data) if data.startswith(PEM) else load_der_public_key(data)
        return public_key(loaded)
    except _UNUSABLE as error:
        raise ProviderError(f"{setting} is not a usable public key: {_reason(error)}") from error


def signing_key(text: str, setting: str) -> SigningKey:
    """Return the private key that ``text`` states, as unencrypted PKCS#8. Raises ProviderError."""
    data = read_bytes(text, setting, is_secret=True)
    load = load_pem_private_key if data.startswith(PEM) else load_der_private_key
    try:
        return private_key(load(data, None))
    except _UNUSABLE as error:
        raise ProviderError(f"{setting} is not a usable private key: {_reason(error)}") from error


def _of_file(path: Path, setting: str, is_secret: bool) -> bytes:
    if is_secret:
        check_secret(path)
    try:
        with path.open("rb") as file:
            data = file.read(KEY_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a name of a file"
        raise ProviderError(f"{setting}: cannot read {path}: {reason}") from error
    if not data or len(data) > KEY_BYTES_MAX:
        raise ProviderError(f"{setting}: {path} must have 1 to {KEY_BYTES_MAX} bytes")
    return data


def _of_data_url(text: str, setting: str) -> bytes:
    head, comma, body = text.removeprefix("data:").partition(",")
    if not comma:
        raise ProviderError(f"{setting} is a data: URL without a comma")
    data = unquote_to_bytes(body)
    if "base64" not in [part.strip().lower() for part in head.split(";")]:
        return data
    return _of_base64(data.decode("ascii", "replace"), setting)


def _of_base64(text: str, setting: str) -> bytes:
    try:
        data = base64.b64decode("".join(text.split()).encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        data = b""
    if not data:
        raise ProviderError(
            f"{setting} must be file:///path, data:;base64,…, the name of a file, or Base64"
        )
    return data


def _is_der_key(data: bytes) -> bool:
    try:
        load_der_public_key(data)
    except _UNUSABLE:
        pass
    else:
        return True
    try:
        load_der_private_key(data, None)
    except _UNUSABLE:
        return False
    return True


def _reason(error: Exception) -> str:
    """Return a reason without the library's advice, which may quote parts of the input."""
    text = str(error)
    return text if len(text) < 100 and "0x" not in text else "its form is unknown"
