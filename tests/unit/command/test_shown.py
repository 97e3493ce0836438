"""Messages as text and JSON: exact for programs, harmless for terminals."""

import json
import unicodedata

from hypothesis import given, strategies

from magnetar.command.messages.shown import json_line, safe, text_of, time_text

BIDI = {"RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI"}


def harmful(text: str) -> list[str]:
    """Return the characters by which a terminal does something else than show text."""
    return [
        character
        for character in text
        if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(character) in BIDI
    ]


@given(strategies.text())
def test_no_text_harms_a_terminal(text: str) -> None:
    assert [c for c in harmful(safe(text)) if c != "\t"] == []


@given(strategies.dictionaries(strategies.text(), strategies.text() | strategies.integers()))
def test_json_is_exact_in_one_harmless_line(value: dict[str, str | int]) -> None:
    line = json_line(value)
    assert harmful(line) == []
    assert json.loads(line) == value


def test_readable_text_stays_as_it_is() -> None:
    text = '{"name": "Zoë 日本 👩‍👧", "path": "a\\nb"}'
    assert text_of(text.encode()) == text


def test_payloads_that_are_no_text_are_in_base64() -> None:
    assert text_of(b"\xff\x00") == "base64:/wA="
    assert text_of(None) == "null"
    assert text_of(b"a\nb\x1b[2J") == "a\\nb\\x1b[2J"


def test_any_time_has_a_text() -> None:
    assert time_text(1_795_737_297_457) == "2026-11-26T23:54:57.457Z"
    assert time_text(2**63) == str(2**63)
    assert time_text(-5) == "-5"
