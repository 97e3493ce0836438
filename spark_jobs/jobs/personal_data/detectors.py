"""Recognition of personal data in texts, and its masking. Pure.

Patterns are bounded, so that no text takes long.
"""

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from ipaddress import ip_address
from typing import NamedTuple

CHARS_MAX = 4096
"""Characters of a text that are examined."""


class PersonalKind(StrEnum):
    """Kinds of personal data."""

    EMAIL = "email"
    PHONE = "phone"
    CARD = "card"
    IBAN = "iban"
    NATIONAL_ID = "national id"
    IP = "ip"
    NAME = "name"
    BIRTH = "birth date"
    ADDRESS = "address"


IN_WORDS = {
    PersonalKind.EMAIL: "e-mail addresses",
    PersonalKind.PHONE: "phone numbers",
    PersonalKind.CARD: "payment card numbers",
    PersonalKind.IBAN: "bank accounts (IBAN)",
    PersonalKind.NATIONAL_ID: "national identity numbers",
    PersonalKind.IP: "IP addresses",
    PersonalKind.NAME: "names of people",
    PersonalKind.BIRTH: "dates of birth",
    PersonalKind.ADDRESS: "postal addresses",
}
BY_NAME_ONLY = frozenset({PersonalKind.NAME, PersonalKind.BIRTH, PersonalKind.ADDRESS})
"""Kinds that are recognized only by the name of a field."""


class Found(NamedTuple):
    data: PersonalKind
    text: str


_EMAIL = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}")
_PHONE = re.compile(r"(?<![\w.+])\+[1-9](?:[ ()./-]{0,2}\d){7,14}(?![\w-])")
_CARD = re.compile(r"(?<![\w.-])[2-6](?:[ -]?\d){12,18}(?![\w-])")
_ISSUED = re.compile(r"(?:4\d{12}|3[47]\d{13}|3[0689]\d{12}|[2-6]\d{15}|[46]\d{17,18})$")
"""Lengths and first digits of cards."""
_IBAN = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}(?!\w)")
_IP4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
_IDS: tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...] = (
    # United States: area, group and serial are never all zeros
    (
        re.compile(r"(?<![\w-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])"),
        lambda _: True,
    ),
    # United Kingdom
    (
        re.compile(
            r"(?<!\w)(?!BG|GB|KN|NK|NT|TN|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?(?:\d{2} ?){3}[A-D](?!\w)"
        ),
        lambda _: True,
    ),
    # Spain
    (
        re.compile(r"(?<!\w)\d{8}-?[A-HJ-NP-TV-Z](?!\w)"),
        lambda text: "TRWAGMYFPDXBNJZSQVHLCKE"[int(text[:8]) % 23] == text[-1],
    ),
    # Italy
    (re.compile(r"(?<!\w)[A-Z]{6}\d{2}[A-EHLMPR-T]\d{2}[A-Z]\d{3}[A-Z](?!\w)"), lambda _: True),
    # France
    (
        re.compile(r"(?<!\w)[12] ?\d{2} ?(?:0[1-9]|1[0-2]) ?\d{2} ?\d{3} ?\d{3} ?\d{2}(?!\w)"),
        lambda text: 97 - int(digits_of(text)[:13]) % 97 == int(digits_of(text)[13:]),
    ),
    # Brazil
    (re.compile(r"(?<!\w)\d{3}\.\d{3}\.\d{3}-\d{2}(?!\w)"), lambda text: _is_cpf(digits_of(text))),
)
_HINTS: tuple[tuple[PersonalKind, re.Pattern[str]], ...] = (
    (PersonalKind.EMAIL, re.compile(r"e?mail")),
    (PersonalKind.PHONE, re.compile(r"phone|mobile|telefon|msisdn|\bfax")),
    (PersonalKind.CARD, re.compile(r"card_?(number|no)|\bpan\b|credit_?card")),
    (PersonalKind.IBAN, re.compile(r"iban|account_?(number|no)")),
    (
        PersonalKind.NATIONAL_ID,
        re.compile(r"\bssn\b|national_?id|passport|tax_?id|social_?security"),
    ),
    (PersonalKind.BIRTH, re.compile(r"birth|\bdob\b")),
    (PersonalKind.ADDRESS, re.compile(r"street|postal|zip_?code|postcode|home_?address")),
    (
        PersonalKind.NAME,
        re.compile(r"(first|last|given|family|full|middle|maiden)_?name|surname|forename"),
    ),
)


def digits_of(text: str) -> str:
    return "".join(c for c in text if c.isdigit())


def passes_luhn(digits: str) -> bool:
    """Return whether the last digit is the check digit of payment cards."""
    doubled = "0246813579"
    turned = digits[::-1]
    return sum(int(doubled[int(d)]) if i % 2 else int(d) for i, d in enumerate(turned)) % 10 == 0


def is_iban(text: str) -> bool:
    """Return whether the check digits of an international bank account number are right (ISO 7064, mod 97)."""
    plain = text.replace(" ", "")
    if not 15 <= len(plain) <= 34:
        return False
    return int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1


def _is_cpf(digits: str) -> bool:
    for size in (9, 10):
        check = sum(int(d) * w for d, w in zip(digits, range(size + 1, 1, -1), strict=False)) * 10
        if check % 11 % 10 != int(digits[size]):
            return False
    return len(set(digits)) > 1


def found(text: str) -> Iterator[Found]:
    """Yield the personal data in a text, the first of each kind."""
    text = text[:CHARS_MAX]
    if "@" in text and (match := _EMAIL.search(text)):
        yield Found(PersonalKind.EMAIL, match[0])
    if not any(c.isdigit() for c in text):
        return
    if "+" in text and (match := _PHONE.search(text)):
        yield Found(PersonalKind.PHONE, match[0])
    if card := next((m[0] for m in _CARD.finditer(text) if _is_card(m[0])), None):
        yield Found(PersonalKind.CARD, card)
    if iban := next((m[0] for m in _IBAN.finditer(text) if is_iban(m[0])), None):
        yield Found(PersonalKind.IBAN, iban)
    for pattern, check in _IDS:
        if number := next((m[0] for m in pattern.finditer(text) if check(m[0])), None):
            yield Found(PersonalKind.NATIONAL_ID, number)
            break
    if address := next((m[0] for m in _IP4.finditer(text) if _is_ip(m[0])), None):
        yield Found(PersonalKind.IP, address)
    elif text.count(":") > 1 and len(text) < 40 and _is_ip(text):
        yield Found(PersonalKind.IP, text)


def _is_card(text: str) -> bool:
    digits = digits_of(text)
    return _ISSUED.match(digits) is not None and len(set(digits)) > 1 and passes_luhn(digits)


def _is_ip(text: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified)


def hinted(path: str) -> PersonalKind | None:
    """Return the kind of personal data that a field holds according to its name; None for others."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", path).lower().replace("-", "_")
    words = re.sub(r"\{[^}]*\}|[^a-z_]", " ", snake)
    spaced = f"{words} {words.replace('_', ' ')}"
    return next((data for data, pattern in _HINTS if pattern.search(spaced)), None)


def masked(text: str) -> str:
    """Return a text of which only the first letter or digit is left, and of a long one the last two, with the
    punctuation between."""
    places = [i for i, c in enumerate(text) if c.isalnum()]
    kept = {*places[:1], *(places[-2:] if len(places) >= 9 else ())}
    return "".join(
        c if i in kept or (not c.isalnum() and c.isprintable()) else "*"
        for i, c in enumerate(text[:60])
    )
