"""What is made from our .proto files is what is committed, and what is written beside it by hand agrees with it."""

from pathlib import Path

import pytest
from grpc_tools import protoc

from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import ServerError
from engine.wire.states import CommandType

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["pulsar", "bookkeeper", "mledger"])
def test_the_generated_modules_are_those_of_the_proto_files(name: str, tmp_path: Path) -> None:
    made = [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    assert protoc.main(["protoc", f"-I{ROOT}", *made, f"engine/wire/{name}.proto"]) == 0
    for ending in ("py", "pyi"):
        file = Path("engine", "wire", f"{name}_pb2.{ending}")
        assert (tmp_path / file).read_text() == (ROOT / file).read_text(), "make proto"


def test_commands_have_the_numbers_of_the_protocol() -> None:
    assert {command.name: command.value for command in CommandType} == dict(
        pb.BaseCommand.Type.items()
    )


def test_errors_have_the_numbers_of_the_protocol() -> None:
    assert {error.name: error.value for error in ServerError} == dict(pb.ServerError.items())
