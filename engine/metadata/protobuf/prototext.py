"""Protobuf's text format, restricted to scalar fields and one level of messages. Pure.

BookKeeper stores ledger metadata of version 2, cookies and the small records of auto-recovery in it.
"""

import re

_TOKEN = re.compile(
    r'\s*(?:([A-Za-z_][A-Za-z0-9_]*)\s*(:|\{)|(\})|("(?:[^"\\]|\\.)*")|([-A-Za-z0-9_]+))'
)
_ESCAPES = {"n": 10, "r": 13, "t": 9, '"': 34, "'": 39, "\\": 92, "a": 7, "b": 8, "f": 12, "v": 11}


def unescape(quoted: str) -> bytes:
    """Return the bytes of a quoted string with protobuf's escapes. Raises ValueError."""
    text = quoted[1:-1]
    out = bytearray()
    i = 0
    while i < len(text):
        if text[i] != "\\":
            out += text[i].encode()
            i += 1
            continue
        digits = re.match(r"[0-7]{1,3}", text[i + 1 :])
        if digits:
            out.append(int(digits[0], 8))
            i += 1 + len(digits[0])
        elif text[i + 1] in "xX":
            digits = re.match(r"[0-9a-fA-F]{1,2}", text[i + 2 :])
            if not digits:
                raise ValueError(f"bad escape in {quoted}")
            out.append(int(digits[0], 16))
            i += 2 + len(digits[0])
        elif text[i + 1] in _ESCAPES:
            out.append(_ESCAPES[text[i + 1]])
            i += 2
        else:
            raise ValueError(f"bad escape in {quoted}")
    return bytes(out)


def escape(value: bytes) -> str:
    """Return a quoted string as protobuf's printer writes it, with octal escapes for bytes beyond printable ASCII."""
    names = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}
    characters = (
        names.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in value
    )
    return f'"{"".join(characters)}"'


def parse_text(text: str, nested: tuple[str, ...] = ()) -> dict[str, list[object]]:
    """Parse a message into its values by field name, in order.

    A value is int, bytes (quoted) or str (enum name); the fields named in ``nested`` are messages, parsed into such
    dicts. Raises ValueError with the text that could not be parsed.
    """
    fields: dict[str, list[object]] = {}
    stack = [fields]
    pos = 0
    name: str | None = None
    text = text.rstrip()
    while pos < len(text):
        token = _TOKEN.match(text, pos)
        if token is None:
            raise ValueError(f"text {text[pos : pos + 20]!r} is not understood")
        pos = token.end()
        key, mark, end, quoted, scalar = token.groups()
        if key is not None and name is None:
            if mark == "{":
                if key not in nested or len(stack) > 1:
                    raise ValueError(f"{key} is not a message here")
                inner: dict[str, list[object]] = {}
                stack[-1].setdefault(key, []).append(inner)
                stack.append(inner)
            else:
                name = key
        elif end is not None and name is None and len(stack) > 1:
            stack.pop()
        elif name is not None and (quoted is not None or scalar is not None):
            value: object = unescape(quoted) if quoted is not None else _scalar(scalar)
            stack[-1].setdefault(name, []).append(value)
            name = None
        else:
            raise ValueError(f"text {token[0]!r} stands in the wrong place")
    if name is not None or len(stack) > 1:
        raise ValueError("text ends too early")
    return fields


def _scalar(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdigit() else text
