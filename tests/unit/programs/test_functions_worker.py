"""The functions worker as a program."""

from pathlib import Path

import pytest

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.settings import SettingsError
from engine.metadata.memory import MemoryServer
from engine.net.network import LoopNetwork
from engine.programs.functions_worker import FUNCTIONS_WORKER


@pytest.mark.parametrize("runtime", ["kubernetes", "x"])
async def test_a_runtime_that_is_not_built_is_refused_by_its_setting(
    tmp_path: Path, runtime: str
) -> None:
    with pytest.raises(SettingsError, match="function_runtime"):
        FUNCTIONS_WORKER.build(
            FUNCTIONS_WORKER.load(
                {"MAGNETAR_FUNCTIONS_WORKER_FUNCTION_RUNTIME": runtime}, tmp_path
            ),
            clock=SystemClock(),
            entropy=RandomEntropy(),
            network=LoopNetwork(),
            store=MemoryServer().session(),
        )


def test_its_port_is_named_for_people(tmp_path: Path) -> None:
    settings = FUNCTIONS_WORKER.load({"MAGNETAR_FUNCTIONS_WORKER_WORKER_PORT": "7777"}, tmp_path)
    assert "7777" in FUNCTIONS_WORKER.ports(settings)
