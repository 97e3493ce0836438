"""Edits of the source. An edit is located by tokens, so that comments, line breaks and other lines may change."""

import ast
import io
import tokenize
from contextlib import suppress
from functools import lru_cache
from textwrap import dedent
from typing import NamedTuple

BLANK = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip


class Edit(NamedTuple):
    """A mistake. ``where``: ``file`` or ``file::Class.method``; ``old`` occurs there once and becomes ``new``.

    ``tests``: below ``tests/``; the first that fails ends the run.
    ``holds``: numbers of docs/invariants.md that it breaks, or of M1 to M17; empty for a fault that was found.
    """

    name: str
    where: str
    old: str
    new: str
    tests: tuple[str, ...]
    holds: str = ""

    @property
    def file(self) -> str:
        return self.where.partition("::")[0]


class PlaceGoneError(Exception):
    """The code that an edit changes does not occur, occurs several times, or becomes invalid Python."""


def edited(source: str, edit: Edit) -> str:
    """Return the file's text with the edit applied. Raises PlaceGoneError, which names the edit."""
    first, last = _bounds(source, edit)
    tokens = [token for token in _tokens(source) if first <= token.start[0] <= last]
    want = [token.string for token in _tokens(dedent(edit.old).strip())]
    have = [token.string for token in tokens]
    starts_at = [i for i in range(len(have) - len(want) + 1) if have[i : i + len(want)] == want]
    if len(starts_at) != 1:
        raise PlaceGoneError(
            f"{edit.name}: found {len(starts_at)} times in {edit.where}: {edit.old.strip()}"
        )
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    begin, end = tokens[starts_at[0]].start, tokens[starts_at[0] + len(want) - 1].end
    line = source[starts[begin[0] - 1] :]
    indent = line[: len(line) - len(line.lstrip(" "))]
    new = dedent(edit.new).strip().replace("\n", "\n" + indent)
    text = source[: starts[begin[0] - 1] + begin[1]] + new + source[starts[end[0] - 1] + end[1] :]
    try:
        compile(text, edit.file, "exec")
    except SyntaxError as error:
        raise PlaceGoneError(f"{edit.name}: {edit.file} is no Python with it: {error}") from error
    return text


def _bounds(source: str, edit: Edit) -> tuple[int, int]:
    """Return the first and last line of the definition around the edit, or of the file."""
    scope: ast.AST = _tree(source)
    bounds = (1, source.count("\n") + 1)
    name = edit.where.partition("::")[2]
    for part in name.split(".") if name else ():
        inner = [
            node for node in ast.iter_child_nodes(scope) if getattr(node, "name", None) == part
        ]
        if not inner:
            raise PlaceGoneError(f"{edit.name}: {edit.file} has no {name}")
        scope = inner[-1]  # a setter follows its property and has the same name
        bounds = (scope.lineno, scope.end_lineno)  # type: ignore[attr-defined]
    return bounds


@lru_cache(maxsize=16)
def _tree(source: str) -> ast.Module:
    return ast.parse(source)


@lru_cache(maxsize=16)
def _tokens(text: str) -> list[tokenize.TokenInfo]:
    """Return the significant tokens; ``text`` may be part of a statement."""
    tokens: list[tokenize.TokenInfo] = []
    with suppress(tokenize.TokenError, IndentationError):
        tokens.extend(tokenize.generate_tokens(io.StringIO(text).readline))
    return [token for token in tokens if token.type not in BLANK]
