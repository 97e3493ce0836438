"""Regular expressions matched in linear time: the part of RE2's syntax that an automaton without memory can run. Pure.

Python's ``re`` backtracks, so one short expression of a client can take minutes. Here an expression becomes a Thompson
automaton; a match visits each character once and does at most one step for each instruction there, so the worst case
is ``instructions * len(text)`` steps.

Supported: literals, ``.``, classes, ``\\d \\w \\s`` (ASCII, as in RE2 and Java), ``\\Q…\\E``, groups, alternation, the
quantifiers and their lazy forms, ``^ $ \\A \\z \\Z``, the flags ``i``, ``s`` and ``U``. Not look-around.
"""

from collections.abc import Callable
from typing import Final

from engine.base.regex.syntax import (
    Alternatives,
    Chars,
    Edge,
    Node,
    Ranges,
    Repeat,
    Sequence,
    UnsupportedRegexError,
    parse,
)

INSTRUCTIONS_MAX = 500
"""Of an automaton whose expression comes from a client: a match of 512 characters is bounded to some 50 ms."""
MEMO_MAX = 4096
"""Transitions remembered by one matcher."""


class LinearRegex:
    """A compiled expression, matched against whole texts."""

    def __init__(self, pattern: str, instructions_max: int = INSTRUCTIONS_MAX) -> None:
        """Raises RegexSyntaxError, UnsupportedRegexError."""
        self.pattern = pattern
        program = _Program(instructions_max)
        start = program.emit(parse(pattern), program.accept)
        self.instructions = len(program)
        self._start = program.closure(start, at_begin=True)
        self._accepting = program.accepting()
        self._follow = program.follow()
        self._literals: dict[str, int] = {}
        """Instructions that accept a character which is one of few."""
        self._classes: list[tuple[Ranges, int]] = []
        """Other classes, and the instructions that accept them."""
        for ranges, mask in program.by_ranges().items():
            if sum(high - low + 1 for low, high in ranges) <= _FEW:
                for char in (chr(code) for low, high in ranges for code in range(low, high + 1)):
                    self._literals[char] = self._literals.get(char, 0) | mask
            else:
                self._classes.append((ranges, mask))

    def fullmatch(self, text: str) -> bool:
        """Whether all of ``text`` matches."""
        states = self._start
        for char in text:
            states = self._step(states, char)
            if not states:
                return False
        return bool(states & self._accepting)

    def matcher(self) -> Callable[[str], bool]:
        """``fullmatch`` for many texts: transitions are remembered, at most MEMO_MAX of them."""
        memo: dict[tuple[int, str], int] = {}
        start, accepting = self._start, self._accepting

        def matches(text: str) -> bool:
            states = start
            for char in text:
                key = states, char
                after = memo.get(key)
                if after is None:
                    if len(memo) >= MEMO_MAX:
                        memo.clear()
                    after = memo[key] = self._step(states, char)
                if not after:
                    return False
                states = after
            return bool(states & accepting)

        return matches

    def _step(self, states: int, char: str) -> int:
        code = ord(char)
        accepting = self._literals.get(char, 0)
        for ranges, mask in self._classes:
            if any(low <= code <= high for low, high in ranges):
                accepting |= mask
        states &= accepting
        follow, after = self._follow, 0
        while states:
            lowest = states & -states
            after |= follow[lowest.bit_length() - 1]
            states ^= lowest
        return after


_FEW = 2
"""Code points of a class that is looked up by character: a literal, with both cases of a letter."""


class _Program:
    """Instructions of an automaton, made from its end: each knows those that come next."""

    def __init__(self, instructions_max: int) -> None:
        self._max = instructions_max
        self._nodes: list[Chars | Edge | None] = [None]
        self._next: list[list[int]] = [[]]
        self.accept: Final = 0

    def __len__(self) -> int:
        return len(self._nodes)

    def _add(self, node: Chars | Edge | None, following: list[int]) -> int:
        if len(self._nodes) >= self._max:
            raise UnsupportedRegexError(f"it takes more than {self._max} instructions")
        self._nodes.append(node)
        self._next.append(following)
        return len(self._nodes) - 1

    def emit(self, node: Node, after: int) -> int:
        """Add ``node`` in front of the instruction ``after``; returns where it begins."""
        match node:
            case Chars() | Edge():
                return self._add(node, [after])
            case Sequence():
                for part in reversed(node.nodes):
                    after = self.emit(part, after)
                return after
            case Alternatives():
                return self._add(None, [self.emit(part, after) for part in node.nodes])
            case Repeat():
                return self._emit_repeat(node, after)

    def _emit_repeat(self, node: Repeat, after: int) -> int:
        begin = after
        if node.most is None:
            begin = self._add(None, [])
            self._next[begin] = [self.emit(node.node, begin), after]
        else:
            for _ in range(node.most - node.least):
                begin = self._add(None, [self.emit(node.node, begin), after])
        for _ in range(node.least):
            before = self.emit(node.node, begin)
            if before == begin:  # it is empty, and adds nothing however often it is repeated
                break
            begin = before
        return begin

    def closure(self, start: int, *, at_begin: bool = False, at_end: bool = False) -> int:
        """As bits, the instructions that wait for a character or the end, reached from ``start`` without one."""
        reached, seen, to_visit = 0, {start}, [start]
        while to_visit:
            at = to_visit.pop()
            node = self._nodes[at]
            passes = node is None or (
                isinstance(node, Edge) and (at_begin if node.begin else at_end)
            )
            if at == self.accept or not passes:
                reached |= 1 << at
                continue
            for following in self._next[at]:
                if following not in seen:
                    seen.add(following)
                    to_visit.append(following)
        return reached

    def follow(self) -> list[int]:
        """By instruction that consumes a character, what its successor reaches."""
        known: dict[int, int] = {}
        out = [0] * len(self)
        for at, node in enumerate(self._nodes):
            if isinstance(node, Chars):
                (after,) = self._next[at]
                if after not in known:
                    known[after] = self.closure(after)
                out[at] = known[after]
        return out

    def accepting(self) -> int:
        """As bits, the instructions at which a text may end."""
        mask = 1 << self.accept
        for at, node in enumerate(self._nodes):
            if isinstance(node, Edge) and self.closure(at, at_end=True) & (1 << self.accept):
                mask |= 1 << at
        return mask

    def by_ranges(self) -> dict[Ranges, int]:
        """As bits, the instructions that accept the same characters."""
        masks: dict[Ranges, int] = {}
        for at, node in enumerate(self._nodes):
            if isinstance(node, Chars):
                masks[node.ranges] = masks.get(node.ranges, 0) | 1 << at
        return masks
