"""The limit of sockets of a process."""

import subprocess
import sys

import pytest

from tests.support.instance import ROOT

LOWERED = """
import resource, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 256), hard))
from {module} import main
try:
    main({arguments})
except SystemExit:
    pass
sys.exit(resource.getrlimit(resource.RLIMIT_NOFILE) != (hard, hard))
"""


@pytest.mark.parametrize(
    ("module", "arguments"), [("engine.__main__", ["broker"]), ("bookie.__main__", [])]
)
def test_servers_may_open_as_many_sockets_as_the_system_lets_them(
    module: str, arguments: list[str]
) -> None:
    code = LOWERED.format(module=module, arguments=arguments)
    wrong = {"MAGNETAR_LOG_LEVEL": "of no kind"}  # they end at once
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=wrong, capture_output=True)
    assert ended.returncode == 0, ended.stderr.decode()
