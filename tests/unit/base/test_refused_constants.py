"""Numbers that JSON does not have are refused wherever JSON is read by the strict grammar."""

import json
import re
from pathlib import Path

import pytest

import engine
from engine.base.errors import refuse_constant

ROOT = Path(engine.__file__).parents[1]
READ = re.compile(r"\bparse_constant=(\w+)")


@pytest.mark.parametrize("text", ["NaN", "[-Infinity]", '{"a": Infinity}'])
def test_numbers_that_json_does_not_have_are_refused_by_their_names(text: str) -> None:
    with pytest.raises(ValueError, match=r"(NaN|Infinity) is no JSON number"):
        json.loads(text, parse_constant=refuse_constant)


def test_one_function_refuses_them_everywhere() -> None:
    used = {
        name
        for part in ("admin_ui", "bookie", "engine", "gateway", "spark_jobs")
        for path in (ROOT / part).rglob("*.py")
        for name in READ.findall(path.read_text())
    }
    # The classes are for what is shown: such a number as its name.
    assert used == {"refuse_constant", "str", "JsonNumber"}
