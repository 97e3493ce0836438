"""Apache's Go admin library, asked by name: see ``library/calls.go``."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.interop.schemas.programs import build_go
from tests.oracle.conftest import Side

SOURCE = Path(__file__).parent / "library" / "calls.go"
RUN_S_MAX = 280.0
Call = list[Any]
"""The name of a call, ``Group.Method``, and its arguments."""


def build(folder: Path) -> str:
    """Return the path of the program, built in ``folder``. Raises UnavailableError without Go or its modules."""
    shutil.copy(SOURCE, folder)
    return build_go(folder, folder)


def parsed(line: str) -> Call:
    """Parse a line of a script: ``Group.Method``, then arguments, each JSON or a word."""
    name, _, rest = line.partition(" ")
    call: Call = [name]
    decoder = json.JSONDecoder()
    while rest := rest.lstrip():
        try:
            value, end = decoder.raw_decode(rest)
            if end < len(rest) and rest[end] != " ":
                raise ValueError("a word that begins as a number does")
        except ValueError:
            value, end = (word := rest.split(" ", 1)[0]), len(word)
        call.append(value)
        rest = rest[end:]
    return call


def answers(
    program: str, side: Side, calls: list[Call], *, version: str = "v2"
) -> list[dict[str, Any]]:
    """Return the library's answer to each call: ``is``, or ``error`` with the ``code`` of a refusal by the server.

    ``version``: that of the interface, ``v3`` for functions, connectors and packages.
    """
    lines_sent = "".join(json.dumps(call) + "\n" for call in calls)
    words = [program, side.http, version]
    done = subprocess.run(
        words, input=lines_sent, capture_output=True, text=True, timeout=RUN_S_MAX
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]  # the library prints too


def methods(program: str) -> set[str]:
    """Return the names of all calls of the library, without the variants that take a context."""
    words = [program, "http://127.0.0.1:1", "methods"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_S_MAX, check=True)
    names = {line.split(" ")[0] for line in done.stdout.splitlines()}
    return {name for name in names if not name.endswith("WithContext")}
