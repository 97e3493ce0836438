"""Progress and result of an analysis that a test runs."""

import asyncio
from pathlib import Path
from typing import Any


class Shown:
    """Progress that a running analysis reports; not from an event loop, in which a worker cannot store it."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int, int]] = []
        self.partials: list[dict[str, Any]] = []
        self._around = _running_loop()
        """A loop that runs around the whole test, as Playwright's does."""

    def __call__(self, stage: str, done: int, total: int) -> None:
        assert _running_loop() in (None, self._around), "progress is reported from an event loop"
        self.stages.append((stage, done, total))

    def partial(self, result: dict[str, Any]) -> None:
        assert _running_loop() in (None, self._around), "progress is reported from an event loop"
        self.partials.append(result)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class Answer:
    """The result of an analysis, by key, with what it reported meanwhile."""

    def __init__(self, result: dict[str, Any], shown: Shown, files: Path) -> None:
        self.result = result
        self.shown = shown
        self.files = files

    @property
    def conclusions(self) -> list[str]:
        return list(self.result["conclusions"])

    def figure(self, key: str) -> Any:
        return next(item["value"] for item in self.result["summary"] if item["key"] == key)

    def rows(self, key: str) -> list[dict[str, Any]]:
        """Return the rows of a table by the keys of its columns."""
        table = next(table for table in self.result["tables"] if table["key"] == key)
        names = [column["key"] for column in table["columns"]]
        return [dict(zip(names, row, strict=True)) for row in table["rows"]]
