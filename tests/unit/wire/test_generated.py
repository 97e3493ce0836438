"""The committed parsers are what the compiler makes of the .proto files."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["pulsar", "bookkeeper", "mledger"])
def test_parsers_are_generated_from_the_protocol(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"--python_out={tmp_path}"]
    proto = f"engine/wire/{name}.proto"
    subprocess.run([*command, f"--pyi_out={tmp_path}", proto], cwd=ROOT, check=True)
    for made in (f"engine/wire/{name}_pb2.py", f"engine/wire/{name}_pb2.pyi"):
        assert (ROOT / made).read_text() == (tmp_path / made).read_text(), "run: make proto"
