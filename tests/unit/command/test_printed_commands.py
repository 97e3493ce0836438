"""Commands that programs print can be pasted into a shell, whatever the paths in them are."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.base.disk.secret_files import remedies
from gateway.standalone.cli import _secure_lines
from gateway.standalone.secure import SecureFiles
from tests.support.import_graph import ROOT, sources

COMMAND = re.compile(
    r"(?<![\w-])(?:(?:chmod|chown|curl|rm|mv|cp|cat|tail|export|exec|pip install|make -C|magnetar \w+) "
    r"|MAGNETAR_[A-Z_]+=)"
    r"[^.;:]*$"
)
NO_PATH = re.compile(
    r"""geteuid|user\b|:03o\}|https\b|PROGRAM|options\b|START\b|authority\b|header\b|\bname\b|\bverb\b"""
)
"""Values that have no character which a shell changes."""


def unquoted(source: ast.AST) -> Iterator[str]:
    """Yield the values in texts behind a shell's command that are not quoted for it."""
    for text in ast.walk(source):
        if not isinstance(text, ast.JoinedStr):
            continue
        before = ""
        for part in text.values:
            if isinstance(part, ast.Constant):
                before += str(part.value)
                continue
            value = ast.unparse(part)
            if COMMAND.search(before) and "quote" not in value and not NO_PATH.search(value):
                yield f"{text.lineno}: {before}{value}"
            before += "x"


def test_an_unquoted_path_behind_a_command_is_found() -> None:
    def places(source: str) -> list[str]:
        return list(unquoted(ast.parse(source)))

    assert len(places('f"Correct it with: chmod 600 {path}"')) == 1
    assert len(places('f"MAGNETAR_DATA_DIR={folder} magnetar run"')) == 1
    assert places('f"chmod 600 {shlex.quote(path)}. See {page}"') == []


def test_paths_in_commands_are_quoted_in_every_source() -> None:
    trees = {**sources(), "bootstrap": ast.parse((ROOT / "bootstrap.py").read_bytes())}
    assert len(trees) > 500
    unsafe = [
        f"{name}:{line}"
        for name, tree in trees.items()
        if not name.startswith("tests.")
        for line in unquoted(tree)
    ]
    assert not unsafe, "\n".join(unsafe)


@pytest.mark.parametrize("name", ["a b", "it's", "$HOME", "x;y", "ä"])
def test_the_lines_of_a_secure_instance_split_into_the_paths(tmp_path: Path, name: str) -> None:
    files = SecureFiles(tmp_path / name)
    lines = _secure_lines(files, "127.0.0.1", 8443, {"pulsar+ssl": 6651})
    (curl,) = (line for line in lines if "curl" in line)
    words = ["curl", "--cacert", str(files.authority), "-H", f"@{files.header}"]
    assert shlex.split(curl) == [*words, "https://127.0.0.1:8443/admin/v2/tenants"]
    (tokens,) = (line for line in lines if "tokens create" in line)
    assert files.token_key.as_uri() in shlex.split(tokens)


def test_the_remedies_of_an_open_file_split_into_its_path() -> None:
    path = "/data of mine/it's a key"
    owned, readable = remedies(path, 0o100644, 8, 7)
    assert shlex.split(owned.rpartition("change it: ")[2]) == ["chown", "7", path]
    assert shlex.split(readable.rpartition("): ")[2]) == ["chmod", "600", path]
