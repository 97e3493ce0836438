"""``bootstrap.py`` on machines that lack something: one line that says what and how to mend it."""

import ast
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "bootstrap.py"


@pytest.mark.parametrize("version", [(3, 6, 15), (3, 10, 12)])
def test_an_old_python_is_told_so(
    version: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = ".".join(str(part) for part in version)
    monkeypatch.setattr(sys, "version_info", (*version, "final", 0))
    monkeypatch.setattr(sys, "version", f"{text} (main)")
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    assert caught.value.code == (
        f"magnetar: Python 3.11 or newer is needed, this is {text}."
        " Mend it with: make PYTHON=/path/to/python3.11 run"
    )


def test_an_old_python_gets_as_far_as_that_line() -> None:
    """No syntax, and no annotation evaluated at import, that 3.7 and later lack."""
    tree = ast.parse(SCRIPT.read_text(), feature_version=(3, 7))
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        arguments = [*function.args.args, *function.args.kwonlyargs]
        annotations = [function.returns, *(argument.annotation for argument in arguments)]
        for annotation in annotations:
            assert not isinstance(annotation, (ast.Subscript, ast.BinOp)), ast.dump(annotation)


def test_a_python_without_venv_names_the_package_to_install(tmp_path: Path) -> None:
    clone, fake, empty = tmp_path / "clone", tmp_path / "fake", tmp_path / "empty"
    for folder in (clone, fake, empty):
        folder.mkdir()
    (clone / "bootstrap.py").write_text(SCRIPT.read_text())
    (clone / "requirements.lock").write_text("")
    (fake / "venv.py").write_text("raise SystemExit('ensurepip is not available')\n")
    done = subprocess.run(
        [sys.executable, "bootstrap.py"],
        cwd=clone,
        env={**os.environ, "PATH": str(empty), "PYTHONPATH": str(fake)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "magnetar: this Python cannot create virtual environments."
        " Mend it with: sudo apt install python3-venv\n"
    )
