"""The programs of the Connect page, exactly as it shows them: each sends a message to a broker and receives it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.bench.contenders import apache_missing
from tests.interop.schemas.programs import UnavailableError, build_go
from tests.oracle.ledgers_java import HOME, LEAN
from tests.support.instance import ROOT
from tests.support.standalone import Standalone

SOURCE = ROOT / "frontend" / "src" / "shared" / "connect" / "snippets.ts"
COMPILER = ROOT / "frontend" / "node_modules" / ".bin" / "tsc"
FILES = {"python": "hello.py", "java": "Hello.java", "go": "main.go"}
PRINT = """
import { LANGUAGES } from "./snippets.mjs";
const instance = JSON.parse(process.argv[1]);
const texts = LANGUAGES.map((language) => [language.key, language.program(instance)]);
console.log(JSON.stringify(Object.fromEntries(texts)));
"""
RUN_S_MAX = 240.0
"""Bound of a program, in seconds, that only one that hangs reaches, on a busy machine as well."""

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``snippets.mjs``; skipped where the front end's tools are not installed."""
    if not COMPILER.exists() or shutil.which("node") is None:
        pytest.skip("the front end's TypeScript and Node.js are not at hand")
    folder = tmp_path_factory.mktemp("snippets")
    words = [str(COMPILER), str(SOURCE), "--outDir", str(folder)]
    words += ["--module", "es2022", "--target", "es2022", "--skipLibCheck"]
    subprocess.run(words, check=True, timeout=RUN_S_MAX)
    (folder / "snippets.js").rename(folder / "snippets.mjs")
    return folder


def text_of(compiled: Path, language: str, url: str, topic: str, authentication: bool) -> str:
    instance = {"brokerUrl": url, "httpUrl": "http://127.0.0.1:1", "topic": topic}
    argument = json.dumps(instance | {"authentication": authentication})
    words = ["node", "--input-type=module", "-e", PRINT, argument]
    done = subprocess.run(
        words, cwd=compiled, check=True, capture_output=True, text=True, timeout=RUN_S_MAX
    )
    return str(json.loads(done.stdout)[language])


def command(language: str, file: Path) -> list[str]:
    """Return the command that runs ``file``; skip the test without the language's tools."""
    if language == "python":
        return [sys.executable, str(file)]
    if language == "go":
        try:
            return [build_go(file.parent, file.parent)]
        except UnavailableError as error:
            pytest.skip(str(error))
    reason = apache_missing()
    if reason is not None:
        pytest.skip(f"Apache's Java client is not at hand: {reason}")
    (jars,) = HOME.glob("apache-pulsar-*/lib")
    return ["java", *LEAN.split(), "-cp", f"{jars}/*", str(file)]


@pytest.mark.parametrize("authentication", [False, True], ids=["open", "token"])
@pytest.mark.parametrize("language", FILES)
def test_a_program_of_the_connect_page_prints_its_message(
    standalone: Standalone, compiled: Path, tmp_path: Path, language: str, authentication: bool
) -> None:
    topic = f"public/default/connect-{language}-{authentication}".lower()
    file = tmp_path / FILES[language]
    file.write_text(text_of(compiled, language, standalone.url, topic, authentication))
    env: Mapping[str, str] = {**os.environ, "PULSAR_TOKEN": "of-a-client"}
    done = subprocess.run(
        command(language, file),
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "Hello" in done.stdout.splitlines(), done.stdout[-2000:] + done.stderr[-2000:]
