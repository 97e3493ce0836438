"""Parser of the syntax that ``LinearRegex`` supports. Pure."""

from collections.abc import Iterable

DEPTH_MAX = 40
"""Maximum depth of nested groups."""
_REPEAT_MAX = 1000
_TOP = 0x10FFFF

Ranges = tuple[tuple[int, int], ...]
"""Ascending disjoint ranges of code points, both ends included."""


class Chars:
    """A node that consumes one character."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges


class Sequence:
    def __init__(self, nodes: "list[Node]") -> None:
        self.nodes = nodes


class Alternatives:
    def __init__(self, nodes: "list[Node]") -> None:
        self.nodes = nodes


class Repeat:
    """A node that is repeated ``least`` to ``most`` times; None is without limit."""

    def __init__(self, node: "Node", least: int, most: int | None) -> None:
        self.node = node
        self.least = least
        self.most = most


class Edge:
    """Assertion of the beginning of the text, or of its end."""

    def __init__(self, *, begin: bool) -> None:
        self.begin = begin


Node = Chars | Sequence | Alternatives | Repeat | Edge


class RegexSyntaxError(ValueError):
    """The text is not a regular expression."""


class UnsupportedRegexError(ValueError):
    """The expression cannot be matched in linear time, or its automaton is too large."""


def _normal(ranges: Iterable[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    return tuple(merged)


def _complement(ranges: Ranges) -> Ranges:
    out: list[tuple[int, int]] = []
    at = 0
    for low, high in ranges:
        if at < low:
            out.append((at, low - 1))
        at = high + 1
    if at <= _TOP:
        out.append((at, _TOP))
    return tuple(out)


def _both_cases(ranges: Ranges) -> Ranges:
    """Return ranges with the other case of ASCII letters, and of ranges that are one character beyond ASCII."""
    out = list(ranges)
    for low, high in ranges:
        for first, last, shift in ((65, 90, 32), (97, 122, -32)):
            if low <= last and high >= first:
                out.append((max(low, first) + shift, min(high, last) + shift))
        if low == high > 127:
            other = chr(low).swapcase()
            if len(other) == 1:
                out.append((ord(other), ord(other)))
    return _normal(out)


_DIGIT: Ranges = ((48, 57),)
_WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Ranges = ((9, 10), (12, 13), (32, 32))
_CLASSES: dict[str, Ranges] = {
    **{"d": _DIGIT, "w": _WORD, "s": _SPACE},
    **{"D": _complement(_DIGIT), "W": _complement(_WORD), "S": _complement(_SPACE)},
}
_ESCAPED = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "a": 7}
_ANY: Ranges = ((0, _TOP),)
_ANY_IN_LINE = _complement(((10, 10),))
_HEX = frozenset("0123456789abcdefABCDEF")


def parse(pattern: str) -> Node:
    """Parse an expression. Raises RegexSyntaxError, UnsupportedRegexError."""
    return _Parser(pattern).parse()


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0
        self._any_case = False
        self._dot_all = False

    def parse(self) -> Node:
        node = self._choice()
        if self._at < len(self._text):
            raise RegexSyntaxError(f"unbalanced parenthesis at position {self._at}")
        return node

    def _peek(self, length: int = 1) -> str:
        return self._text[self._at : self._at + length]

    def _read(self, length: int = 1) -> str:
        text = self._peek(length)
        if len(text) < length:
            raise RegexSyntaxError("it ends within a group, class or escape")
        self._at += length
        return text

    def _choice(self) -> Node:
        branches = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else Alternatives(branches)

    def _sequence(self) -> Node:
        nodes: list[Node] = []
        while (char := self._peek()) and char not in "|)":
            if char in "*+?" or (char == "{" and self._bounds() is not None):
                raise RegexSyntaxError(f"nothing to repeat at position {self._at}")
            if self._text.startswith("\\Q", self._at):
                nodes += self._quoted()
            else:
                nodes += self._atom()
            if nodes:
                nodes[-1] = self._repeated(nodes[-1])
        return nodes[0] if len(nodes) == 1 else Sequence(nodes)

    def _quoted(self) -> list[Node]:
        """Parse the literals between \\Q and \\E, or up to the end."""
        self._at += 2
        end = self._text.find("\\E", self._at)
        stop = len(self._text) if end < 0 else end
        literals: list[Node] = [self._literal(ord(char)) for char in self._text[self._at : stop]]
        self._at = stop if end < 0 else stop + 2
        return literals

    def _literal(self, code: int) -> Chars:
        return self._chars(((code, code),))

    def _chars(self, ranges: Ranges) -> Chars:
        return Chars(_both_cases(ranges) if self._any_case else ranges)

    def _atom(self) -> list[Node]:
        """Parse one node; return none for a group that only sets flags."""
        char = self._read()
        match char:
            case "(":
                return self._group()
            case "[":
                return [self._class()]
            case ".":
                return [Chars(_ANY if self._dot_all else _ANY_IN_LINE)]
            case "^" | "$":
                return [Edge(begin=char == "^")]
            case "\\":
                return self._escape()
        return [self._literal(ord(char))]

    def _escape(self) -> list[Node]:
        char = self._peek()
        if char == "E":  # the end of a quotation without its beginning
            self._at += 1
            return []
        if char and char in "AzZ":
            self._at += 1
            return [Edge(begin=char == "A")]
        if char in _CLASSES:
            self._at += 1
            return [self._chars(_CLASSES[char])]
        return [self._literal(self._escaped())]

    def _escaped(self) -> int:
        """Return the code point of an escaped character, whose backslash was read before."""
        char = self._read()
        if char in _ESCAPED:
            return _ESCAPED[char]
        if char == "x" and self._peek() == "{":
            end = self._text.find("}", self._at)
            digits = self._text[self._at + 1 : end] if end >= 0 else ""
            self._at = end + 1
            return self._code(digits)
        if char in "xu":
            return self._code(self._read(2 if char == "x" else 4))
        if char.isascii() and char.isalnum():
            raise UnsupportedRegexError(f"\\{char} is not supported")
        return ord(char)

    def _code(self, digits: str) -> int:
        if not digits or len(digits) > 6 or not _HEX.issuperset(digits):
            raise RegexSyntaxError("no hexadecimal number behind \\x or \\u")
        code = int(digits, 16)
        if code > _TOP:
            raise RegexSyntaxError(f"there is no character {digits}")
        return code

    def _group(self) -> list[Node]:
        any_case, dot_all = self._any_case, self._dot_all
        if self._peek() == "?" and self._extension() == ")":
            return []  # the flags apply up to the end of the enclosing group
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise UnsupportedRegexError(f"more than {DEPTH_MAX} groups within each other")
        node = self._choice()
        if self._peek() != ")":
            raise RegexSyntaxError("missing ), unterminated group")
        self._at += 1
        self._depth -= 1
        self._any_case, self._dot_all = any_case, dot_all
        return [node]

    def _extension(self) -> str:
        """Parse ``?…`` behind a parenthesis; return its last character, which is ``)`` for flags without a group."""
        self._at += 1
        for named in ("P<", "<"):
            if self._text.startswith(named, self._at):
                end = self._text.find(">", self._at)
                name = self._text[self._at + len(named) : end] if end >= 0 else ""
                if self._text.startswith(("<=", "<!"), self._at):
                    raise UnsupportedRegexError("look-behind is not supported")
                if not name.isidentifier():
                    raise RegexSyntaxError(f"bad name of the group at position {self._at}")
                self._at = end + 1
                return "<"
        on = True
        while (char := self._read()) not in ":)":
            match char:
                case "-":
                    on = False
                case "i":
                    self._any_case = on
                case "s":
                    self._dot_all = on
                case "U":
                    pass  # the preferred match does not affect whether there is a match
                case _:
                    raise UnsupportedRegexError(f"(?{char} is not supported")
        return char

    def _class(self) -> Chars:
        negated = self._peek() == "^"
        if negated:
            self._at += 1
        ranges: list[tuple[int, int]] = []
        first = True
        while first or self._peek() != "]":
            first = False
            low = self._member(ranges)
            if low is None:
                continue
            high = low
            if self._peek() == "-" and self._peek(2) != "-]":
                self._at += 1
                end = self._member([])
                if end is None or end < low:
                    raise RegexSyntaxError(f"bad range in a class at position {self._at}")
                high = end
            ranges.append((low, high))
        self._at += 1
        chosen = _normal(ranges)
        if self._any_case:
            chosen = _both_cases(chosen)
        return Chars(_complement(chosen) if negated else chosen)

    def _member(self, ranges: list[tuple[int, int]]) -> int | None:
        """Parse one character of a class; return None for a nested class, which is added to ``ranges``."""
        if self._peek(2) in ("[:", "&&"):
            raise UnsupportedRegexError(f"{self._peek(2)} in a class is not supported")
        char = self._read()
        if char != "\\":
            return ord(char)
        if self._peek() in _CLASSES:
            ranges += _CLASSES[self._read()]
            return None
        return self._escaped()

    def _repeated(self, node: Node) -> Node:
        char = self._peek()
        bounds = self._bounds() if char == "{" else None
        if bounds is not None:
            least, most, self._at = bounds
        elif char and char in "*+?":
            self._at += 1
            least, most = int(char == "+"), 1 if char == "?" else None
        else:
            return node
        match self._peek():
            case "?":
                self._at += 1  # lazy quantifiers match the same texts
            case "+":
                raise UnsupportedRegexError("possessive quantifiers are not supported")
            case "*":
                raise RegexSyntaxError(f"multiple repeat at position {self._at}")
        return Repeat(node, least, most)

    def _bounds(self) -> tuple[int, int | None, int] | None:
        """Return the bounds in ``{n}``, ``{n,}`` or ``{n,m}`` and the position behind it; None for a literal brace."""
        end = self._text.find("}", self._at)
        if end < 0:
            return None
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        if not _is_number(low) or (high and not _is_number(high)):
            return None
        if len(low) > 4 or len(high) > 4 or max(int(low), int(high or 0)) > _REPEAT_MAX:
            raise UnsupportedRegexError(f"it repeats more than {_REPEAT_MAX} times")
        least, most = int(low), int(high) if high else None
        if not comma:
            most = least
        if most is not None and most < least:
            raise RegexSyntaxError(f"min repeat greater than max repeat at position {self._at}")
        return least, most, end + 1


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
