"""A pytest plugin that writes the failed tests of a run, with the first failure of each, to a file."""

import json
import os
from pathlib import Path

import pytest

FAILURES_FILE = "CI_FAILURES_FILE"
"""Environment variable that names the file."""

TEXT_MAX = 4000


class Recorder:
    """Failed tests by node id, in the order in which they failed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._failures: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            # A test that fails and whose clean-up fails as well is shown by what failed first.
            text = f"{report.when}: {report.longreprtext}"
            self._failures.setdefault(report.nodeid, text[-TEXT_MAX:])

    def pytest_sessionfinish(self) -> None:
        self._path.write_text(json.dumps(self._failures))


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get(FAILURES_FILE)
    # Reports of xdist's workers reach the recorder of the process that started them.
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(Path(path)))
