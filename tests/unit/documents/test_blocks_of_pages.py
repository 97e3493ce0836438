"""Every command and program in the pages for users is run by a test, or says why no test can run it."""

import textwrap

import pytest

from tests.integration.docs.terminal import Ports, matches
from tests.support.documents.pages import Page, excused, pages, parse, problems

PAGES = pages()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_block_of_a_page_is_run_or_excused(page: Page) -> None:
    assert problems(page) == []


def of(text: str) -> Page:
    return parse("docs/guides/a.md", textwrap.dedent(text))


def test_blocks_have_their_remarks_and_their_output() -> None:
    page = of(
        """\
        # A page
        <!-- saved as: a.py -->
        ```python
        print(1)
        ```

        1. Run it:

           <!-- exit status: 3 -->
           ```sh
           python a.py
             exit 3
           ```

           It prints:

           ```text
           1
           ```

        ## Another
        ```text
        a picture
        ```
        """
    )
    program, command, output, picture = page.blocks
    assert (program.file, program.is_run) == ("a.py", False)
    assert (command.text, command.is_run) == ("python a.py\n  exit 3\n", True)
    assert command.remarks == {"exit status": "3"}
    assert (output.of, picture.of) == (command.line, 0)
    assert problems(page) == []


def test_blocks_in_a_directive_are_blocks_of_the_page() -> None:
    page = of("````{tab-set}\n```sh\ntrue\n```\n````\n")
    assert [(block.kind, block.line) for block in page.blocks] == [("sh", 2)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("```\ntrue\n```", "no info word"),
        ("```shell\ntrue\n```", "unknown info word shell"),
        ("<!-- not run: -->\n```sh\ntrue\n```", "without a reason"),
        ("<!-- not run: root -->\n```sh\ntrue\n```", "without a reason"),
        ("<!-- run by: tests/nowhere.py -->\n```sh\ntrue\n```", "does not exist"),
        ("<!-- same as: README.md -->\n```sh\ntrue\n```", "differs from README.md"),
        ("```java\nclass A {}\n```", "run by a test"),
        ("```sh\nsudo apt install x\n```", '"sudo" is not for a test'),
        ("```sh\napp/bin/pip install x\n```", '"pip install" is not for a test'),
        ("<!-- exit status: bad -->\n```sh\ntrue\n```", "is a number"),
        ("<!-- not run: needs three machines -->\nText.\n", "no block behind"),
        ("<!-- instance: big -->\n", "an instance is"),
        ("```sh\ntrue\n", "has no end"),
        ("```sh\ntrue\n```\n<!-- not run: it is output -->\n```text\n1\n```", "has no remark"),
    ],
)
def test_a_block_that_no_test_would_run_is_reported(text: str, problem: str) -> None:
    (wrong,) = problems(of(text))
    assert problem in wrong


def test_reasons_are_collected() -> None:
    page = of("<!-- not run: needs three machines -->\n```sh\nsudo reboot\n```")
    assert excused(page) == [("docs/guides/a.md:2", "needs three machines")]


@pytest.mark.parametrize(
    ("output", "expected", "is_same"),
    [
        ("a\n", "a\n", True),
        ("a\nb\n", "a\n", False),
        ("a 12:03 b\n", "a … b\n", True),
        ("a\nc\nd\nb\n", "a\n…\nb\n", True),
        ("a\nb\n", "a\n…\nb\n", True),
        ("a (1)\n", "a (…)\n", True),
        ("a\nb\n", "a…b\n", False),
    ],
)
def test_output_matches_with_gaps(output: str, expected: str, is_same: bool) -> None:
    assert matches(output, expected) is is_same


def test_ports_of_the_instance_stand_for_the_default_ones() -> None:
    ports = Ports({"BROKER": 42001, "HTTP": 42002})
    there = ports.of_instance("pulsar://127.0.0.1:6650 http://localhost:8080/a/6650b 16650 6650.")
    assert there == "pulsar://127.0.0.1:42001 http://localhost:42002/a/6650b 16650 42001."
    assert (
        ports.of_page(there) == "pulsar://127.0.0.1:6650 http://localhost:8080/a/6650b 16650 6650."
    )
