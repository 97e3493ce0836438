"""Texts of the gateway that the console shows, checked against the word list docs/words.md."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[4]
SPEAKING = ("admin_ui", "gateway/services", "gateway/http", "gateway/jobs")
"""Packages with reasons, titles and advice that the console shows."""
SILENT_CALLS = {"debug", "info", "warning", "error", "exception", "log"}
"""Methods of a logger; its texts are for operators."""
SILENT_WORDS = {"help_text", "description"}
"""Arguments for the OpenAPI document."""


class Rule(NamedTuple):
    say: str
    unwanted: re.Pattern[str]
    but_in: tuple[str, ...]


class Text(NamedTuple):
    file: str
    line: int
    text: str


def rules() -> list[Rule]:
    words = (ROOT / "docs" / "words.md").read_text()
    table = words[words.index("## Words") : words.index("## Numbers")]
    rows = re.findall(r"^\| (.+?) \| (.*?) ?\| (.+?) \| (.*?) ?\|$", table, re.MULTILINE)[1:]
    return [
        Rule(say, _any_of(unwanted.split(", ")), tuple(re.findall(r"`(.+?)`", but_in)))
        for say, _, unwanted, but_in in rows
    ]


def _any_of(words: list[str]) -> re.Pattern[str]:
    whole = (rf"\b{word}\b" if re.fullmatch(r"\w.*\w", word) else re.escape(word) for word in words)
    return re.compile("|".join(whole), re.IGNORECASE)


def texts() -> list[Text]:
    result = []
    for folder in SPEAKING:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                name = str(path.relative_to(ROOT))
                tree = ast.parse(path.read_text())
                result += [Text(name, line, text) for line, text in _sentences(tree)]
    return result


def _sentences(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the sentences below ``node`` that are neither docstrings nor logged nor for the OpenAPI document."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return
        case ast.Call(func=ast.Attribute(attr=called)) if called in SILENT_CALLS:
            return
        case ast.keyword(arg=name) if name in SILENT_WORDS:
            return
        case ast.JoinedStr(values=values, lineno=line):
            text = "".join(part.value if isinstance(part, ast.Constant) else "X" for part in values)
            if _is_sentence(text):
                yield line, text
            return
        case ast.Constant(value=str(text), lineno=line) if _is_sentence(text):
            yield line, text
    for child in ast.iter_child_nodes(node):
        yield from _sentences(child)


def _is_sentence(text: str) -> bool:
    """Return whether a text is a sentence; an SQL statement is not."""
    return bool(re.search(r"[a-z]\s+[a-z]", text, re.IGNORECASE)) and not re.search(
        r"\b(SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA|BEGIN)\b", text
    )


def test_the_word_list_and_the_texts_are_found() -> None:
    assert len(rules()) > 10
    assert len(texts()) > 150


def test_texts_use_the_words_of_the_list() -> None:
    wanted = rules()
    unwanted = [
        f"{file}:{line}: say {rule.say}: {text.strip()}"
        for file, line, text in texts()
        for rule in wanted
        if rule.unwanted.search(text) and not file.startswith(rule.but_in)
    ]
    assert not unwanted, "\n".join(unwanted)
