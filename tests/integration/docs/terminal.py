"""A reader's terminal: the blocks of a page, one after the other, in an empty folder beside an instance."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from gateway.standalone.ports import BROKER_STEP, DEFAULTS
from tests.support.documents.pages import ROOT, Block, Page
from tests.support.instance import Instance

BLOCK_S_MAX = 60.0
"""Bound of a block in seconds, which only one that hangs reaches."""
STEPS = {"BROKER": BROKER_STEP, "BROKER_HTTP": BROKER_STEP, "BOOKIE": 1, "BOOKIE_HTTP": 1}
"""Differences between the ports of a part and those of the next one of its kind."""
PROGRAMS = ("curl", "openssl", "jq", "node", "go", "mvn", "java", "sqlite3")
"""Programs that a block may use and a machine may not have."""
CURL = """#!/bin/sh
for argument; do
  case $argument in -[!-]*f* | -f* | --fail* | *http_code*) exec {curl} -sS "$@" ;; esac
done
exec {curl} -sS --fail-with-body "$@"
"""
"""Wrapper of curl: no meter, as on a terminal; a refusal fails unless the page handles it (-f, %{http_code})."""
CLIENT_LOG = re.compile(
    r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [A-Z]+ +\[\d+\] .*\n", re.MULTILINE
)
"""Lines that the official Python client writes to the standard output; pages leave them out."""
MAGNETAR = """#!/bin/sh
PYTHONPATH={root} exec {python} -P -m magnetar "$@"
"""
STATE = """
cd "$(cat {folder}/.where)"
[ ! -e {folder}/.state ] || . {folder}/.state
trap 'export -p > {folder}/.state; pwd > {folder}/.where' EXIT
set -e -o pipefail
"""
"""Lines before a block of shell: variables and folder are those that the block before it left."""


class WrongBlockError(Exception):
    """A block failed, or printed something else than the page says."""


class Ports:
    """The ports of an instance in place of the default ones, and the reverse."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        pairs = [(DEFAULTS[name], port) for name, port in ports.items()]
        for name, step in STEPS.items():
            if name in ports:
                pairs += [(DEFAULTS[name] + n * step, ports[name] + n * step) for n in (1, 2)]
        self._there = {str(default): str(real) for default, real in pairs}
        self._back = {real: default for default, real in self._there.items()}

    def of_instance(self, text: str) -> str:
        return self._replace(text, self._there)

    def of_page(self, text: str) -> str:
        return self._replace(text, self._back)

    @staticmethod
    def _replace(text: str, numbers: Mapping[str, str]) -> str:
        return re.sub(r"(?<![\w.])\d{4,5}(?![\w]|\.\d)", lambda m: numbers.get(m[0], m[0]), text)


def matches(output: str, expected: str) -> bool:
    """Return whether the output is as expected; ``…`` is any text, on a line of its own any number of lines."""
    lines = [line.rstrip() for line in expected.strip("\n").splitlines()]
    pattern = ""
    for line in lines:
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(map(re.escape, line.split("…"))) + r"\n"
    text = "".join(f"{line.rstrip()}\n" for line in output.strip("\n").splitlines())
    return re.fullmatch(pattern, text) is not None


def missing_program(page: Page) -> str | None:
    """Return a program that blocks of the page use and this machine does not have."""
    texts = [block.text for block in page.blocks if block.is_run and block.kind == "sh"]
    for program in PROGRAMS:
        used = any(re.search(rf"(?m)(?:^|[|(])\s*{program}\b", text) for text in texts)
        if used and shutil.which(program) is None:
            return program
    return None


class Terminal:
    """Runs the blocks of a page in ``folder``."""

    def __init__(self, instance: Instance, folder: Path, bin_folder: Path) -> None:
        self._ports = Ports(instance.ports)
        self._folder = folder
        self._env = environment(instance, folder, bin_folder)
        self._running: list[tuple[Block, subprocess.Popen[bytes], Path, str]] = []
        (folder / ".where").write_text(f"{folder}\n")

    def run(self, page: Page) -> None:
        """Run all blocks of the page. Raises WrongBlockError for the first that is not as the page says."""
        expected = {block.of: block for block in page.blocks if block.of}
        try:
            for block in page.blocks:
                if block.file:
                    (self._folder / block.file).write_text(self._ports.of_instance(block.text))
                if block.is_run:
                    output = expected.get(block.line)
                    self._run_block(block, "" if output is None else output.text)
            for block, process, log, text in self._running:
                self._wait_for_output(block, process, log, text)
        finally:
            self.close()

    def close(self) -> None:
        for _, process, *_ in self._running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait(10)
        self._running = []

    def _run_block(self, block: Block, expected: str) -> None:
        log = self._folder / f".output-{block.line}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                self._command(block),
                cwd=self._folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        if "in another terminal" in block.remarks:
            self._running.append((block, process, log, expected))
            return
        try:
            status = process.wait(BLOCK_S_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
            status = -1
        text = self._text(log)
        if status != int(block.remarks.get("exit status", "0")):
            raise WrongBlockError(f"{block.place}: status {status}\n{block.text}\n{text}")
        if expected and not matches(text, expected):
            raise WrongBlockError(_difference(block, text, expected))

    def _command(self, block: Block) -> list[str]:
        text = self._ports.of_instance(block.text)
        if block.kind == "python":
            program = self._folder / f".block-{block.line}.py"
            program.write_text(text)
            text = shlex.join([sys.executable, str(program)])
        script = self._folder / f".block-{block.line}.sh"
        script.write_text(STATE.format(folder=shlex.quote(str(self._folder))) + text)
        return ["bash", str(script)]

    def _wait_for_output(
        self, block: Block, process: "subprocess.Popen[bytes]", log: Path, expected: str
    ) -> None:
        until = time.monotonic() + BLOCK_S_MAX / 2
        while expected and not matches(self._text(log), expected):
            if time.monotonic() > until:
                raise WrongBlockError(_difference(block, self._text(log), expected))
            time.sleep(0.05)
        if process.poll() not in (None, 0):
            raise WrongBlockError(f"{block.place}: it ended\n{self._text(log)}")

    def _text(self, log: Path) -> str:
        text = CLIENT_LOG.sub("", log.read_text(errors="replace"))
        return self._ports.of_page(text)


def environment(instance: Instance, folder: Path, bin_folder: Path) -> dict[str, str]:
    """Return the variables of a reader's shell, for whom the instance has the default ports."""
    env = {name: text for name, text in os.environ.items() if not name.startswith("MAGNETAR_")}
    env |= {f"MAGNETAR_{name}_PORT": str(port) for name, port in instance.ports.items()}
    env |= {"MAGNETAR_URL": instance.url, "MAGNETAR_ADMIN_URL": instance.http}
    env |= {"MAGNETAR_DATA_DIR": str(instance.data_dir), "HOME": str(folder)}
    env |= {"PATH": f"{bin_folder}:{Path(sys.executable).parent}:{env['PATH']}"}
    return env | {"LC_ALL": "C.UTF-8", "NO_COLOR": "1", "COLUMNS": "120"}


def write_programs(folder: Path) -> Path:
    """Write the command ``magnetar`` of this source tree, and ``curl``, into ``folder``."""
    folder.mkdir()
    root, python = (shlex.quote(str(path)) for path in (ROOT, sys.executable))
    programs = {"magnetar": MAGNETAR.format(root=root, python=python)}
    if (curl := shutil.which("curl")) is not None:
        programs["curl"] = CURL.replace("{curl}", shlex.quote(curl))
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def _difference(block: Block, text: str, expected: str) -> str:
    return f"{block.place} printed\n{text}\nand the page says\n{expected}"
