"""The documents read as plain technical English: short sentences, and the terms of docs/glossary.md.

Sentences are those of paragraphs and list items; a colon or semicolon ends one, too. Tables and code have none, but the
words of tables are checked.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
QUOTING = ("docs/glossary.md", "docs/words.md")
"""Documents that quote the words that are not to be used."""
LONGEST = 29
"""Words of the longest sentence that a document may have."""
MEAN = 15.0
"""Words of a sentence in the mean of a document."""
BANNED = re.compile(
    r"\b(anew|hears?|heard|nobody|somebody|tells?|told|thereof|whoever|whomever)\b", re.IGNORECASE
)
RELATIVE = re.compile(r"[*_]*(What|Whatever|Who|Whoever|Whose)\b[^?]*$")
"""A statement that begins with a relative clause and not with its noun."""
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r"^\s*([-*]|\d+\.)\s+")
SENTENCE_END = re.compile(r"(?<=[.!?:;])[)*_]*\s+")


def blocks(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the paragraphs, list items and table rows of a document, with whether they consist of sentences."""
    paragraph: list[str] = []
    for line in [*FENCE.sub("", text).splitlines(), ""]:
        row = line.startswith("|")
        no_prose = row or not line.strip() or line.startswith(("#", "    "))
        if paragraph and (no_prose or ITEM.match(line)):
            yield " ".join(paragraph), True
            paragraph = []
        if row:
            yield line, False
        elif not no_prose:
            paragraph.append(ITEM.sub("", line).strip())


def plain(text: str) -> str:
    """Return the text with each piece of code or quotation replaced by a word, without links and brackets."""
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\"[^\"]*\"|“[^”]*”", "quotation", text)
    return re.sub(r"\([^()]*\)", "", text)


def sentences(text: str) -> list[str]:
    """Return the sentences of a document."""
    prose = [plain(block) for block, has_sentences in blocks(text) if has_sentences]
    parts = [part for block in prose for part in SENTENCE_END.split(block)]
    return [part for part in parts if words(part)]


def words(sentence: str) -> int:
    """Return the number of words; numbers and signs are none."""
    return len(re.findall(r"[^\W\d_][\w'-]*", sentence))


def findings(text: str) -> list[str]:
    """Return what is not plain in a document."""
    parts = sentences(text)
    wrong = [f"{words(part)} words: {part}" for part in parts if words(part) > LONGEST]
    wrong += [f"begins with a relative clause: {part}" for part in parts if RELATIVE.match(part)]
    for block, _ in blocks(text):
        wrong += [f'"{word}": {block[:80]}' for word in BANNED.findall(plain(block))]
    if parts and sum(map(words, parts)) > MEAN * len(parts):
        wrong.append(f"more than {MEAN:g} words in a sentence on average")
    return wrong


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_is_plain(path: Path) -> None:
    if str(path.relative_to(ROOT)) not in QUOTING:
        assert findings(path.read_text()) == []


SHORT = "A broker stores it. "


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (SHORT * 9 + "word " * 30, "30 words"),
        (SHORT * 9 + "word " * 15 + "\n" + "word " * 15, "30 words"),
        ("- " + "word " * 20, "more than 15 words"),
        ("What is left is deleted.", "begins with a relative clause"),
        ("A broker stores it; **who** reads it waits. Whose it is, is stored.", "begins with"),
        ("A client is told the reason.", '"told"'),
        ("| case | nobody asks |", '"nobody"'),
    ],
)
def test_a_text_that_is_not_plain_is_reported(text: str, finding: str) -> None:
    (wrong,) = findings(text)
    assert wrong.startswith(finding)


@pytest.mark.parametrize(
    "text",
    [
        "```\n" + "word " * 99 + "told\n```",
        "    " + "word " * 99,
        "| " + "word " * 99 + "|",
        "# What is heard",
        "What holds the metadata?",
        "The plant `is-told` and “told” are quoted.",
        "- " + "word " * 9 + "\n- " + "word " * 9 + "\n1. " + "word " * 9,
        SHORT * 9 + "word " * 20 + "(" + "word " * 20 + ").",
    ],
)
def test_a_plain_text_has_no_finding(text: str) -> None:
    assert findings(text) == []
