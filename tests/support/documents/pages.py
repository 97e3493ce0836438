"""Pages of the documentation as commands to run: fenced blocks, with the remarks on them in HTML comments.

A page is plain Markdown. Blocks of ``sh`` and ``python`` run in their order; a block of ``text`` behind one is its
expected output, where ``…`` stands for anything. Remarks stand on lines of their own before the block, and no reader of
the page sees them:

``<!-- not run: REASON -->``          no test can run the block
``<!-- run by: PATH -->``             a test of its own runs it
``<!-- saved as: NAME -->``           the block is written to a file of this name instead of being run
``<!-- same as: PATH -->``            the block's text is that of a file of the repository
``<!-- in another terminal -->``      the block runs until the end of the page; its output is compared then
``<!-- exit status: NUMBER -->``      the block ends with this status, not with 0
``<!-- not output -->``               the block of ``text`` is not the output of the block before it

``<!-- instance: KIND -->`` at the top of a page names the kind of instance that it needs: ``plain`` unless given,
``secure``, or ``cluster`` (three bookies and two brokers, which the page may stop and kill).
"""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("start", "concepts", "guides", "reference", "compare")
"""Folders of docs whose commands are run; the pages beside them describe the inside, not how to use it."""
RUN = frozenset({"sh", "python"})
OUTPUT = "text"
PLAIN_KINDS = frozenset(
    {
        *(
            "conf",
            "css",
            "dockerfile",
            "html",
            "http",
            "ini",
            "json",
            "makefile",
            "mermaid",
            "promql",
        ),
        *("properties", "sql", "toml", "xml", "yaml"),
        *("cpp", "csharp", "go", "java", "javascript", "rust", "typescript"),
    }
)
"""Info words of blocks that are shown and not run."""
PROGRAMS = frozenset({"cpp", "csharp", "go", "java", "javascript", "rust", "typescript"})
"""Info words of programs: they are run by a test of their own, or say why not."""
REMARKS = frozenset(
    {"not run", "run by", "saved as", "same as", "in another terminal", "exit status", "not output"}
)
INSTANCES = frozenset({"plain", "secure", "cluster"})
NEEDS_A_REASON = re.compile(
    r"^\s*(?:sudo|apt|apt-get|dnf|brew|docker|podman|kubectl|helm|systemctl|npm|npx|pip|pipx|uv|make|mvn|go)\b"
    r"|^\s*git clone\b|\bpip install\b|python3? -m venv",
    re.MULTILINE,
)
"""Commands that download, need root or change the machine. A test runs none of them."""

_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$")
_REMARK = re.compile(r"^\s*<!--\s*(?P<name>[a-z ]+?)\s*(?::\s*(?P<value>.*?))?\s*-->\s*$")


@dataclass(frozen=True)
class Block:
    """A fenced block. ``line`` is that of its first fence."""

    page: str
    line: int
    kind: str
    text: str
    remarks: dict[str, str]
    of: int = 0
    """The line of the block that prints this output; 0 if it is compared with nothing."""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_run(self) -> bool:
        """True if the test of the pages runs the block."""
        elsewhere = self.remarks.keys() & {"not run", "run by", "saved as"}
        return self.kind in RUN and not elsewhere

    @property
    def file(self) -> str:
        """Name under which the block is written into the folder of its page; empty if it is not."""
        source = self.remarks.get("same as", "")
        return self.remarks.get("saved as", Path(source).name)


@dataclass(frozen=True)
class Page:
    """A page with its blocks; ``name`` is its path in the repository."""

    name: str
    instance: str
    blocks: tuple[Block, ...]
    wrong: tuple[str, ...]

    @property
    def is_run(self) -> bool:
        return any(block.is_run for block in self.blocks)


def paths() -> list[Path]:
    """Return the pages whose commands are run."""
    pages = [path for folder in FOLDERS for path in (ROOT / "docs" / folder).rglob("*.md")]
    return [ROOT / "README.md", *sorted(pages)]


def pages() -> list[Page]:
    return [parse(str(path.relative_to(ROOT)), path.read_text()) for path in paths()]


def parse(name: str, text: str) -> Page:
    """Return the page. Remarks that cannot be understood are listed in ``wrong``, with their lines."""
    reader = _Reader(name)
    reader.read(list(enumerate(text.splitlines(), 1)))
    return Page(name, reader.instance, tuple(reader.blocks), tuple(reader.wrong))


class _Reader:
    def __init__(self, name: str) -> None:
        self.name = name
        self.instance = "plain"
        self.blocks: list[Block] = []
        self.wrong: list[str] = []
        self._remarks: dict[str, str] = {}
        self._before: Block | None = None

    def read(self, lines: Sequence[tuple[int, str]]) -> None:
        numbered = iter(lines)
        for number, line in numbered:
            if (opening := _FENCE.match(line)) is not None:
                self._block(number, opening, numbered)
            elif (remark := _REMARK.match(line)) is not None:
                self._remark(number, remark["name"], remark["value"] or "")
            elif line.strip():
                self._unused(number)
                if line.startswith("#"):
                    self._before = None
        self._unused(lines[-1][0] if lines else 0)

    def _block(
        self, number: int, opening: re.Match[str], numbered: Iterator[tuple[int, str]]
    ) -> None:
        inside: list[tuple[int, str]] = []
        for at, line in numbered:
            if line.strip() == opening["fence"]:
                break
            inside.append((at, line))
        else:
            self.wrong.append(f"{self.name}:{number}: the block has no end")
        info = opening["info"].split()
        if info and info[0].startswith("{"):
            # A directive of MyST contains text, which may have blocks of its own.
            self.read(inside)
            return
        text = textwrap.dedent("\n".join(line for _, line in inside)) + "\n"
        kind = info[0] if info else ""
        block = Block(self.name, number, kind, text, self._remarks)
        if kind == OUTPUT and self._before is not None and "not output" not in self._remarks:
            block = replace(block, of=self._before.line)
        self.blocks.append(block)
        self._before, self._remarks = block if block.is_run else None, {}

    def _remark(self, number: int, name: str, value: str) -> None:
        if name == "instance":
            if value not in INSTANCES or self.blocks:
                self.wrong.append(
                    f"{self.name}:{number}: an instance is {sorted(INSTANCES)}, on top"
                )
            self.instance = value
        elif name in REMARKS:
            self._remarks[name] = value

    def _unused(self, number: int) -> None:
        if self._remarks:
            self.wrong.append(f"{self.name}:{number}: no block behind {sorted(self._remarks)}")
        self._remarks = {}


def problems(page: Page) -> list[str]:
    """Return what a page has that is neither run nor excused, one line each."""
    wrong = list(page.wrong)
    for block in page.blocks:
        wrong += [f"{block.place}: {problem}" for problem in _problems_of(block)]
    return wrong


def _problems_of(block: Block) -> Iterator[str]:
    remarks = block.remarks
    if not block.kind:
        yield "the block has no info word: sh, python, text, json …"
    elif block.kind not in RUN | PLAIN_KINDS | {OUTPUT}:
        yield f"unknown info word {block.kind}"
    if "not run" in remarks and len(remarks["not run"].split()) < 2:
        yield "not run, without a reason"
    if block.kind in PROGRAMS and not remarks.keys() & {"not run", "run by"}:
        yield f"a program in {block.kind} is run by a test, or has the reason why not"
    for name in ("run by", "same as"):
        if name in remarks and not (ROOT / remarks[name]).is_file():
            yield f"{name} {remarks[name]}, which does not exist"
    source = ROOT / remarks.get("same as", ".")
    if source.is_file() and source.read_text() != block.text:
        yield f"the text differs from {remarks['same as']}"
    if block.is_run and (command := NEEDS_A_REASON.search(block.text)) and block.kind == "sh":
        yield f'"{command[0].strip()}" is not for a test: <!-- not run: REASON -->'
    if "exit status" in remarks and not remarks["exit status"].isdigit():
        yield "an exit status is a number"
    if block.kind == OUTPUT and remarks.keys() - {"not output"}:
        yield "expected output has no remark but <!-- not output -->"


def excused(page: Page) -> list[tuple[str, str]]:
    """Return place and reason of each block that no test runs."""
    return [
        (block.place, block.remarks["not run"])
        for block in page.blocks
        if "not run" in block.remarks
    ]


def main() -> None:
    """Print the blocks that no test runs, with their reasons."""
    for page in pages():
        for place, reason in excused(page):
            print(f"{place}: {reason}")


if __name__ == "__main__":
    main()
