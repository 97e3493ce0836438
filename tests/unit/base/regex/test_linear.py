"""The linear matcher agrees with Python's ``re`` on what both know, and does a bounded number of steps."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.regex.linear import INSTRUCTIONS_MAX, MEMO_MAX, LinearRegex
from engine.base.regex.syntax import RegexSyntaxError, UnsupportedRegexError

ATOMS = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", "[a-c_]", r"\w", r"\D", r"[^\d]", "^", "$", "()", r"\.", "]"]
)
QUANTIFIERS = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,3}", "{1,}", "*?", "??", "{1}?"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("({}|{})".format, inner, inner),
        st.builds("(?i:{})".format, inner),
        st.builds("(?P<g>{})".format, ATOMS),
        st.builds("(?:{}){}".format, inner, QUANTIFIERS),
    ),
    max_leaves=8,
)


@given(PATTERNS, st.lists(st.text("abAB1.]\n", min_size=1, max_size=6), max_size=20))
def test_it_agrees_with_pythons_matcher(pattern: str, texts: list[str]) -> None:
    try:
        expected = re.compile(pattern, re.ASCII)
    except re.error:  # two groups of one name
        return
    regex = LinearRegex(pattern)
    matches = regex.matcher()
    for text in texts:
        assert matches(text) == regex.fullmatch(text) == (expected.fullmatch(text) is not None)


class Counting(LinearRegex):
    steps = 0

    def _step(self, states: int, char: str) -> int:
        self.steps += states.bit_count()
        return super()._step(states, char)


@pytest.mark.parametrize(
    "pattern",
    [".*.*" + "a?" * 14 + "b", "(a+)+b", "(a|a)*b", "(a*)*b", "(a|b)*a(a|b){8}", "(.*a){20}b"],
)
def test_patterns_that_make_a_backtracking_matcher_explode_take_linear_steps(pattern: str) -> None:
    regex = Counting(pattern)
    text = "a" * 400 + "!"
    assert not regex.fullmatch(text)
    assert regex.steps <= regex.instructions * len(text)


def test_transitions_that_are_remembered_are_bounded() -> None:
    matches = LinearRegex("(a|b)*a(a|b){12}").matcher()
    memo = dict(zip(matches.__code__.co_freevars, matches.__closure__ or (), strict=True))["memo"]  # type: ignore[attr-defined]
    for number in range(1 << 12):
        text = f"{number:013b}".replace("0", "a").replace("1", "b")
        assert matches(text) == (text[0] == "a")
        assert len(memo.cell_contents) <= MEMO_MAX


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"a\Q.*\E+b", "a.**b"),
        (r"\Qa.b", "a.b"),
        (r"\x41\x{1F600}\u0042", "A\U0001f600B"),
        ("(?i)stra\u00dfe\u00c9", "STRA\u00dfE\u00e9"),
        ("(?s)a.b", "a\nb"),
        ("(?U)a+(?-i)b", "aab"),
        ("(?<name>a)b", "ab"),
        ("a{b}{,2}", "a{b}{,2}"),
        ("[]a-]+", "]-a"),
        (r"\Aab\z", "ab"),
        ("a|", ""),
        ("^$", ""),
    ],
)
def test_the_syntax_of_re2_and_java_is_understood(pattern: str, text: str) -> None:
    assert LinearRegex(pattern).fullmatch(text)
    assert not LinearRegex(pattern).fullmatch(text + "\n!")


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "([bad",
            "*",
            "a**",
            "(" * 40,
            "a)",
            "a{2,1}",
            "[b-a]",
            r"[a-\d]",
            "[a",
            "a\\",
            "(?P<1>a)",
        ),
        *(r"\xZZ", r"\x{110000}", r"\x{}", r"\u12", "(?i", "(?", "|+"),
    ],
)
def test_an_invalid_expression_is_refused(pattern: str) -> None:
    with pytest.raises(RegexSyntaxError):
        LinearRegex(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            r"(a)\1",
            "(?=a)b",
            "(?!a)b",
            "(?<=a)b",
            "(?<!a)b",
            "(?>a)",
            "(?m)a",
            "a*+",
            r"\pL",
            r"\bb",
        ),
        *("[[:alpha:]]", "[a&&b]", "a{1001}", "a{99999}", "(" * 41 + ")" * 41),
        *("((a{1000}){1000}){1000}", "a" * INSTRUCTIONS_MAX, "((^{1000}){1000}){1000}"),
    ],
)
def test_constructs_beyond_the_bounds_are_named(pattern: str) -> None:
    with pytest.raises(UnsupportedRegexError):
        LinearRegex(pattern)


def test_repeating_nothing_costs_nothing() -> None:
    regex = LinearRegex("((((){1000}){1000}){1000}){1000}a")
    assert regex.instructions == 2
    assert regex.fullmatch("a")
