"""A page whose commands fail, or print something else than it says, fails its test."""

from pathlib import Path
from typing import cast

import pytest

from tests.integration.docs.terminal import Terminal, WrongBlockError, missing_program
from tests.support.documents.pages import parse
from tests.support.instance import Instance


class Stub:
    """An instance without processes."""

    def __init__(self, folder: Path) -> None:
        self.data_dir = folder / "data"
        self.ports = {"BROKER": 42001, "HTTP": 42002}
        self.url = "pulsar://127.0.0.1:42001"
        self.http = "http://127.0.0.1:42002"


def run(tmp_path: Path, text: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    terminal = Terminal(cast(Instance, Stub(tmp_path)), home, tmp_path / "bin")
    terminal.run(parse("docs/guides/a.md", text))


def sh(*lines: str) -> str:
    return "\n".join(("```sh", *lines, "```", ""))


def text(*lines: str) -> str:
    return "\n".join(("```text", *lines, "```", ""))


def test_variables_and_folder_are_those_of_the_block_before(tmp_path: Path) -> None:
    before = sh("export PLACE=here", "mkdir inner", "cd inner")
    run(tmp_path, before + sh('echo "$PLACE $(basename "$PWD")"') + text("here inner"))


def test_ports_are_those_of_the_instance_and_are_shown_as_the_page_has_them(tmp_path: Path) -> None:
    page = sh("echo 127.0.0.1:6650 > address", "[ $(cat address) = 127.0.0.1:$((42000 + 1)) ]")
    run(tmp_path, page + sh("cat address") + text("127.0.0.1:6650"))


def test_a_saved_file_is_run_by_a_later_block(tmp_path: Path) -> None:
    program = "<!-- saved as: a.py -->\n```python\nprint(6650)\n```\n"
    run(tmp_path, program + sh("python a.py") + text("6650"))


def test_a_block_of_another_terminal_is_compared_at_the_end(tmp_path: Path) -> None:
    begun = "<!-- in another terminal -->\n" + sh("until [ -e go ]; do sleep 0.01; done; echo went")
    run(tmp_path, begun + text("went") + "## Then\n" + sh("touch go"))


@pytest.mark.parametrize(
    "page",
    [
        sh("false"),
        sh("false | true"),
        sh("echo a") + text("b"),
        sh("echo a", "echo b") + text("a"),
        "<!-- exit status: 3 -->\n" + sh("exit 4"),
        "<!-- exit status: 3 -->\n" + sh("true"),
        "```python\nraise SystemExit(1)\n```\n",
    ],
)
def test_a_block_that_is_not_as_the_page_says_fails(tmp_path: Path, page: str) -> None:
    with pytest.raises(WrongBlockError):
        run(tmp_path, page)


def test_a_program_that_a_machine_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    page = parse("docs/guides/a.md", sh("cat file | jq .x"))
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert missing_program(page) == "jq"
