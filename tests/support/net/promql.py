"""The series that PromQL queries select: families, and the labels that they match or group by."""

import re
from typing import NamedTuple

WORDS = {"and", "or", "unless", "bool", "by", "without"}
_RANGE = re.compile(r"\[[^\]]*\]")
_STRING = re.compile(r'"[^"]*"')
_GROUPING = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")
_SELECTOR = re.compile(
    r"""(?P<function>[a-zA-Z_]\w*\s*\()
    | (?P<family>[a-zA-Z_:][\w:]*) \s* (?P<braces>\{(?:[^{}"]|"[^"]*")*\})?
    | "[^"]*" """,
    re.VERBOSE,
)


class Selected(NamedTuple):
    """A selector of a query: the family, its text, and the labels that it matches or its query groups by."""

    family: str
    text: str
    labels: frozenset[str]


def selectors(query: str) -> list[Selected]:
    """Return the selectors of a query in the form that the dashboards and rules use."""
    grouped = {label.strip() for group in _GROUPING.findall(query) for label in group.split(",")}
    selected = []
    for match in _SELECTOR.finditer(_RANGE.sub("", _GROUPING.sub(" ", query))):
        family, braces = match["family"], match["braces"] or ""
        if family is None or family in WORDS:
            continue
        matched = re.findall(r"(\w+)\s*(?:=|!)", _STRING.sub("", braces))
        selected.append(Selected(family, family + braces, frozenset({*matched, *grouped})))
    return selected
