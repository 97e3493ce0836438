"""Users' classes, functions and modules as one call, and what is said where they cannot be loaded."""

import sys
from pathlib import Path

import pytest

from engine.functions.instance.user.user_code import UserCodeError, as_call, code_first, load

CODE = """
import functools
from pulsar import Function

class Exclaim(Function):
    def process(self, input, context):
        return f"{input}!{context}"

class Lonely:
    def process(self, input):
        return input * 2

class Callable_:
    def __call__(self, input, context):
        return (input, context)

def process(input, end="?"):
    return input + end

def both(input, context):
    return (input, context)

async def awaited(input):
    return input

def many(a, b, c):
    return a

class Fails:
    def __init__(self):
        raise RuntimeError("no database")

number = 7
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "users_code.py").write_text(CODE)
    (tmp_path / "users_import.py").write_text("import not_there_at_all\n")
    (tmp_path / "users_empty.py").write_text("")
    monkeypatch.setattr(sys, "path", list(sys.path))
    with code_first([str(tmp_path)]):
        pass


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("users_code.Exclaim", "x!c"),
        ("users_code.Lonely", "xx"),
        ("users_code.Callable_", ("x", "c")),
        ("users_code", "x?"),
        ("users_code.process", "x?"),
        ("users_code.both", ("x", "c")),
    ],
)
def test_every_form_of_user_code_is_called(name: str, result: object) -> None:
    assert as_call(name)("x", "c") == result


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nowhere.Thing", "no module nowhere.Thing in the package"),
        ("users_code.Missing", "users_code has no Missing"),
        ("users_empty", "module users_empty has no function process"),
        ("users_code.number", "neither a class with process"),
        ("users_code.awaited", "is a coroutine"),
        ("users_code.many", r"takes neither \(input, context\) nor \(input\)"),
    ],
)
def test_the_error_names_code_that_cannot_be_called(name: str, text: str) -> None:
    with pytest.raises(UserCodeError, match=text):
        as_call(name)


def test_a_module_that_is_missing_inside_the_users_passes_through() -> None:
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all"):
        load("users_import.Thing")


def test_an_exception_of_the_users_constructor_passes_through() -> None:
    with pytest.raises(RuntimeError, match="no database"):
        as_call("users_code.Fails")


def test_each_function_has_its_own_modules_also_of_equal_names(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    calls = []
    for folder in folders:
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / "__init__.py").write_text("")
        (folder / "deep" / "inner.py").write_text(f"NAME = {folder.name!r}\n")
        (folder / "alike.py").write_text(
            "from deep.inner import NAME\ndef process(x):\n    return x + NAME\n"
        )
        with code_first([str(folder)]):
            calls.append(as_call("alike"))
    assert [call("of ", None) for call in calls] == ["of first", "of second"]
    # An update is at the same place.
    (folders[0] / "alike.py").write_text("def process(x):\n    return x + 'the update'\n")
    with code_first([str(folders[0])]):
        assert as_call("alike")("of ", None) == "of the update"
    assert calls[0]("of ", None) == "of first", "what runs still goes on"
    assert [path for path in sys.path if path == str(folders[0])] == [str(folders[0])]
