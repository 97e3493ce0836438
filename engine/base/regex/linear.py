"""Regular expressions that are matched in linear time, in the part of RE2's syntax that finite automata can run. Pure.

Python's ``re`` backtracks, so that one short expression of a client can take minutes. Here an expression is compiled to
a Thompson automaton. A match visits each character once and runs at most one step for each instruction there, so that
the worst case is ``instructions * len(text)`` steps.

Supported: literals, ``.``, classes, ``\\d \\w \\s`` (ASCII, as in RE2 and Java), ``\\Q…\\E``, groups, alternation, the
quantifiers and their lazy forms, ``^ $ \\A \\z \\Z``, the flags ``i``, ``s`` and ``U``. Look-around is not supported.
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
"""Maximum size of an automaton for a client's expression, which bounds a match of 512 characters to about 50 ms."""
MEMO_MAX = 4096
"""Maximum number of transitions that one matcher caches."""


class LinearRegex:
    """A compiled expression, matched against whole texts."""

    def __init__(self, pattern: str, instructions_max: int = INSTRUCTIONS_MAX) -> None:
        """Compile ``pattern``. Raises RegexSyntaxError, UnsupportedRegexError."""
        self.pattern = pattern
        program = _Program(instructions_max)
        start = program.emit(parse(pattern), program.accept)
        self.instructions = len(program)
        self._start = program.closure(start, at_begin=True)
        self._accepting = program.accepting()
        self._follow = program.follow()
        self._literals: dict[str, int] = {}
        """Instructions that accept a character, for classes of at most _FEW characters."""
        self._classes: list[tuple[Ranges, int]] = []
        """Larger classes, and the instructions that accept them."""
        for ranges, mask in program.by_ranges().items():
            if sum(high - low + 1 for low, high in ranges) <= _FEW:
                for char in (chr(code) for low, high in ranges for code in range(low, high + 1)):
                    self._literals[char] = self._literals.get(char, 0) | mask
            else:
                self._classes.append((ranges, mask))

    def fullmatch(self, text: str) -> bool:
        """Return whether the complete ``text`` matches."""
        states = self._start
        for char in text:
            states = self._step(states, char)
            if not states:
                return False
        return bool(states & self._accepting)

    def matcher(self) -> Callable[[str], bool]:
        """Return a function like ``fullmatch`` for many texts, which caches at most MEMO_MAX transitions."""
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
"""Maximum number of characters of a class that is looked up by character: both cases of a letter."""


class _Program:
    """Instructions of an automaton, added from its end, each with the indexes of its successors."""

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
        """Add ``node`` in front of the instruction ``after``; return its first instruction."""
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
            if before == begin:  # an empty node, which adds no instruction in any repetition
                break
            begin = before
        return begin

    def closure(self, start: int, *, at_begin: bool = False, at_end: bool = False) -> int:
        """Return the instructions, as bits, that are reached from ``start`` without consuming a character.

        Only instructions that wait for a character or for the end of the text are included.
        """
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
        """Return, by instruction that consumes a character, the closure of its successor."""
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
        """Return the instructions, as bits, at which a text may end."""
        mask = 1 << self.accept
        for at, node in enumerate(self._nodes):
            if isinstance(node, Edge) and self.closure(at, at_end=True) & (1 << self.accept):
                mask |= 1 << at
        return mask

    def by_ranges(self) -> dict[Ranges, int]:
        """Return the instructions, as bits, that accept the same characters, by these characters."""
        masks: dict[Ranges, int] = {}
        for at, node in enumerate(self._nodes):
            if isinstance(node, Chars):
                masks[node.ranges] = masks.get(node.ranges, 0) | 1 << at
        return masks
