"""Hashes of passwords as htpasswd files have them: ``$apr1$``, and those of the system's crypt(3), which are DES,
``$5$``, ``$6$``, ``$2y$`` and its variants. Verification takes up to a second by design and may run in any thread."""

import ctypes
import hashlib
import hmac
import re
from functools import lru_cache

PASSWORD_BYTES_MAX = 1024
APR1 = "$apr1$"
_DES = "DES"
_CRYPT_DATA_BYTES = 256 << 10
"""Size of the work area of ``crypt_r``, which differs between libraries; none needs more."""
_LIBRARIES = ("libcrypt.so.1", "libcrypt.so.2", None)
_SALT_MAX = 8
_APR1_ROUNDS = 1000
_ALPHABET = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_FORMS = {
    APR1: re.compile(r"\$apr1\$[^$]{0,8}\$[./0-9A-Za-z]{22}"),
    "$2": re.compile(r"\$2[abxy]\$\d\d\$[./0-9A-Za-z]{53}"),
    "$5$": re.compile(r"\$5\$(rounds=\d{1,9}\$)?[^$]{0,16}\$[./0-9A-Za-z]{43}"),
    "$6$": re.compile(r"\$6\$(rounds=\d{1,9}\$)?[^$]{0,16}\$[./0-9A-Za-z]{86}"),
    _DES: re.compile(r"[./0-9A-Za-z]{13}"),
}
_PROBES = {
    "$2": "$2y$04$abcdefghijklmnopqrstuu",
    "$5$": "$5$rounds=1000$probe",
    "$6$": "$6$rounds=1000$probe",
    _DES: "ab",
}
"""Settings by which a kind is tried, cheap ones."""


def check_form(stored: str) -> None:
    """Raise ValueError unless ``stored`` is a hash that can be verified on this machine."""
    kind = next((kind for kind, form in _FORMS.items() if form.fullmatch(stored)), None)
    if kind is None:
        raise ValueError("not a hash of htpasswd: $apr1$, $2y$, $5$, $6$ or crypt")
    if kind != APR1 and not _is_supported(kind):
        raise ValueError(f"this system's crypt(3) does not support {kind.strip('$')} hashes")


def verifies(stored: str, password: bytes) -> bool:
    """Return whether a hash that has passed ``check_form`` is of this password."""
    if len(password) > PASSWORD_BYTES_MAX or b"\0" in password:  # crypt(3) ends at a zero byte
        return False
    made = _apr1(stored, password) if stored.startswith(APR1) else _crypt(password, stored)
    return made is not None and hmac.compare_digest(made.encode(), stored.encode())


def _apr1(stored: str, password: bytes) -> str:
    """Return Apache's variant of the MD5 hash with the salt of ``stored``."""
    salt = stored.removeprefix(APR1).partition("$")[0][:_SALT_MAX].encode()
    inner = hashlib.md5(password + salt + password, usedforsecurity=False).digest()
    length = len(password)
    start = password + APR1.encode() + salt + (inner * (length // 16 + 1))[:length]
    bit = length
    while bit:
        start += b"\0" if bit & 1 else password[:1]
        bit >>= 1
    digest = hashlib.md5(start, usedforsecurity=False).digest()
    for number in range(_APR1_ROUNDS):
        piece = password if number & 1 else digest
        if number % 3:
            piece += salt
        if number % 7:
            piece += password
        piece += digest if number & 1 else password
        digest = hashlib.md5(piece, usedforsecurity=False).digest()
    groups = [(digest[i], digest[i + 6], digest[(i + 12) if i < 4 else 5]) for i in range(5)]
    text = "".join(_base64(a << 16 | b << 8 | c, 4) for a, b, c in groups)
    return f"{APR1}{salt.decode()}${text}{_base64(digest[11], 2)}"


def _base64(value: int, characters: int) -> str:
    return "".join(_ALPHABET[value >> 6 * index & 63] for index in range(characters))


def _crypt(password: bytes, setting: str) -> str | None:
    """Return what crypt(3) makes, None when it does not know the setting."""
    library = _library()
    if library is None:
        return None
    work = ctypes.create_string_buffer(_CRYPT_DATA_BYTES)
    made = library.crypt_r(password, setting.encode(), work)
    return None if made is None or made.startswith(b"*") else made.decode("ascii", "replace")


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | None:
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
            function = library.crypt_r
        except (OSError, AttributeError):
            continue
        function.restype = ctypes.c_char_p
        function.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p]
        return library
    return None


@lru_cache
def _is_supported(kind: str) -> bool:
    return _crypt(b"probe", _PROBES[kind]) is not None
