"""The code reads as plain technical English: docs/glossary.md has the words, this holds what can be measured.

A folder that is not rewritten yet stands in ``PENDING``; nothing is added to it.
"""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("engine", "bookie", "gateway", "admin_ui", "spark_jobs", "magnetar")
GENERATED = ("_pb2.py", "_pb2.pyi")
PENDING: tuple[str, ...] = ()
"""Folders and files whose findings are not reported yet."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


OPENERS = _words("""
    also although and any as at because before beside between both but by each either even except for from how if in
    into it its like most never nobody none not nothing of on once only or over since so some somebody such than that
    their then there these they this those though through to under until unless up upon what whatever when whenever
    where whether which while who whoever whom whose why with within without yet
""")
"""First words of a relative clause or a fragment: no docstring begins with one."""
NOT_VERBS = OPENERS | _words("""
    a all an another every everything first last no one other our raises returns several the two
""")
"""First words of a noun phrase, or of a sentence without its verb: no function's docstring begins with one. Properties,
fixtures, classes and modules are described by nouns."""
WORDS = _words("hear heard hears nobody somebody tell tells told whoever whomever")
"""Words of people, used of components; docs/glossary.md has the field's terms."""
NAMES = _words("each found heard one said told which")
"""Variables that do not say what they hold."""
TEST_NAME = re.compile(r"test_(?!(?:what|who)_)")
"""Beginning of a test's name: its subject is a noun, not a relative clause."""
NOUN_MARKS = ("property", "fixture")
CLOSED_BRACKETS = re.compile(r"[\])}]+[,:]?")
"""All code of a line that ends a statement, or a part of one, that began on an earlier line."""
DIRECTIVE = re.compile(r"# (fmt|type|noqa|mypy|pragma)\b")
"""A comment for a tool, which has its place behind the code."""
SHARED_CLASS_NAMES = _words("Command Migration Record SessionStore")
"""Public classes that may have the same name in two packages: Django or users find them by it."""

Finding = tuple[int, str]


def documented(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.expr, str]]:
    """Yield every node that has a docstring, with the expression and the text."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for before, statement in zip([None, *body], body, strict=False):
            if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
                continue
            text = statement.value.value
            if isinstance(text, str) and (before is None or _assigns(before)):
                yield (node if before is None else before), statement.value, text


def _assigns(statement: ast.AST) -> bool:
    return isinstance(statement, ast.Assign | ast.AnnAssign)


def opening(node: ast.AST, text: str) -> str | None:
    """Return the first word of a docstring that begins wrongly, else None."""
    words = text.split()
    word = words[0].strip("`.,:;()").lower() if words else ""
    wrong = OPENERS
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        marks = [ast.unparse(mark) for mark in node.decorator_list]
        if not any(noun in mark for mark in marks for noun in NOUN_MARKS):
            wrong = NOT_VERBS
    return word if word in wrong else None


def comments_of(source: str) -> list[tokenize.TokenInfo]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [token for token in tokens if token.type == tokenize.COMMENT]


def prose(comments: Iterable[tokenize.TokenInfo], tree: ast.AST) -> Iterator[Finding]:
    """Yield the lines of docstrings and comments."""
    for _, value, text in documented(tree):
        yield from enumerate(text.splitlines(), value.lineno)
    for token in comments:
        yield token.start[0], token.string


def behind_brackets(comments: Iterable[tokenize.TokenInfo]) -> Iterator[int]:
    """Yield the lines of comments behind a lone closing bracket: the formatter split the statement because its comment
    was too long for the line. The comment belongs on its own line above the statement."""
    for token in comments:
        if DIRECTIVE.match(token.string):
            continue
        if CLOSED_BRACKETS.fullmatch(token.line[: token.start[1]].strip()):
            yield token.start[0]


def names(tree: ast.AST) -> Iterator[Finding]:
    """Yield the names that are bound."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


def names_of_tests(tree: ast.AST) -> Iterator[Finding]:
    """Yield the names of tests."""
    for node in ast.walk(tree):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and node.name.startswith("test_"):
            yield node.lineno, node.name


def findings(source: str) -> list[Finding]:
    """Return what is not plain in a file, by line."""
    tree, comments = ast.parse(source), comments_of(source)
    wrong = [
        (value.lineno, f'a docstring begins with "{word}"')
        for node, value, text in documented(tree)
        if (word := opening(node, text)) is not None
    ]
    for line, text in prose(comments, tree):
        banned = WORDS & {word.lower() for word in re.findall(r"[A-Za-z]+", text)}
        wrong += [(line, f'"{word}" in prose') for word in sorted(banned)]
    wrong += [(line, "a comment behind a closing bracket") for line in behind_brackets(comments)]
    wrong += [
        (line, f'a variable is called "{name}"') for line, name in names(tree) if name in NAMES
    ]
    for line, name in names_of_tests(tree):
        if not TEST_NAME.match(name) or WORDS & set(name.split("_")):
            wrong.append((line, f'a test is called "{name}"'))
    return sorted(wrong)


def files() -> Iterator[Path]:
    """Yield every source file that is written by hand."""
    for package in (*PACKAGES, "tests"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if not path.name.endswith(GENERATED):
                yield path.relative_to(ROOT)


def is_pending(path: Path) -> bool:
    """Return whether a file is not rewritten yet."""
    return any(path.is_relative_to(place) for place in PENDING)


def test_docstrings_comments_and_variables_are_plain() -> None:
    wrong = [
        f"{path}:{line}: {what}"
        for path in files()
        if not is_pending(path) and path != Path(__file__).relative_to(ROOT)
        for line, what in findings((ROOT / path).read_text())
    ]
    assert not wrong, "\n".join(wrong)


def test_pending_folders_still_have_findings() -> None:
    sources = list(files())
    for place in PENDING:
        inside = [path for path in sources if path.is_relative_to(place)]
        assert any(findings((ROOT / path).read_text()) for path in inside), f"{place} is plain"


def test_public_classes_have_one_name_in_one_package() -> None:
    homes = defaultdict(set)
    for path in files():
        if path.parts[0] in PACKAGES and not is_pending(path):
            for node in ast.parse((ROOT / path).read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes[node.name].add(path.parts[0])
    twice = {name for name, packages in homes.items() if len(packages) > 1}
    assert twice <= SHARED_CLASS_NAMES, sorted(twice - SHARED_CLASS_NAMES)


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        ('def f():\n    """What is left."""', 'a docstring begins with "what"'),
        ('async def f():\n    """The rest."""', 'a docstring begins with "the"'),
        ('class A:\n    """Of a topic, the rest."""', 'a docstring begins with "of"'),
        ('"""How it is read."""', 'a docstring begins with "how"'),
        ('A = 1\n"""So many."""', 'a docstring begins with "so"'),
        ("x = 1  # nobody waits", '"nobody" in prose'),
        ('def f():\n    """Return what was told."""', '"told" in prose'),
        ("for one in ():\n    pass", 'a variable is called "one"'),
        ("def f(found):\n    pass", 'a variable is called "found"'),
        ("def test_what_is_left(): ...", 'a test is called "test_what_is_left"'),
        ("async def test_a_topic_is_told(): ...", 'a test is called "test_a_topic_is_told"'),
        ("x = f(\n    y\n)  # why", "a comment behind a closing bracket"),
        ("if (\n    x\n):  # why\n    pass", "a comment behind a closing bracket"),
        ("x = f(\n    (\n        y,\n    ),  # why\n)", "a comment behind a closing bracket"),
    ],
)
def test_text_that_is_not_plain_is_reported(source: str, finding: str) -> None:
    assert [what for _, what in findings(source)] == [finding]


@pytest.mark.parametrize(
    "source",
    [
        'def f():\n    """Return the rest."""',
        '@property\ndef f():\n    """The rest."""',
        '@pytest.fixture\ndef f():\n    """A broker."""',
        'class A:\n    """A topic."""',
        "found_at = 1",
        "def test_whole_files(): ...",
        "# why\nx = f(y)",
        "x = f(y)  # why",
        "x = (\n    y,\n)  # fmt: skip",
        "x = f(\n    y\n)  # type: ignore[arg-type]",
        "x = [\n    y\n] + z  # why",
    ],
)
def test_plain_code_has_no_finding(source: str) -> None:
    assert findings(source) == []
