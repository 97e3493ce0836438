"""The series that PromQL queries select: families, and the labels that they match or group by."""

import re
from typing import NamedTuple

KEYWORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}
_STRINGS = re.compile(r'"[^"]*"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR = re.compile(r"(?<![\w.$])([a-zA-Z_:][\w:]*)(?!\s*\(|[\w:])\s*(\{[^}]*\})?")


class Selected(NamedTuple):
    """A selector of a query: the family, the labels in braces, and all that its query groups by."""

    family: str
    text: str
    labels: frozenset[str]


def selectors(query: str) -> list[Selected]:
    """Return the selectors of a query in the form that the dashboards and rules use."""
    grouped = {
        label.strip() for group in _GROUPING.findall(query) for label in group.split(",") if label
    }
    rest = re.sub(r"\[[^\]]*\]", "", _GROUPING.sub("", query))
    out = []
    for match in _SELECTOR.finditer(rest):
        name, braces = match[1], match[2] or ""
        inside = _STRINGS.sub("", rest[: match.start()]).count("{")
        if name in KEYWORDS or inside > _STRINGS.sub("", rest[: match.start()]).count("}"):
            continue
        if _STRINGS.sub("", rest[: match.start()]).count('"'):
            continue
        labels = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", _STRINGS.sub("", braces))
        out.append(Selected(name, f"{name}{braces}", frozenset({*labels, *grouped})))
    return out
