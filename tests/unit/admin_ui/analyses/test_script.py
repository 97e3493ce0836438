"""The script that runs an analysis again."""

import json
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from admin_ui.analyses.script import script_of
from spark_jobs.catalogue import ANALYSES

PARAMETERS = {
    "topic": "persistent://a/b/c",
    "text": 'a "quote", \\ and """ {brace}\n',
    "flag": True,
}
STORES = {"metadata.url": "zk:127.0.0.1:2181"}


def test_the_script_calls_the_job_as_the_run_did(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = script_of(
        run="ab12",
        analysis="topic-profile",
        title='Topic profile of "x"""\\',
        parameters=PARAMETERS,
        stores=STORES,
    )
    calls: list[Any] = []

    def job(spark: Any, parameters: Any, context: Any, *, progress: Any, output_dir: Path) -> Any:
        calls.append((spark, parameters, context, output_dir))
        progress("reading", 1, 2)
        progress.partial({})
        return {"conclusions": ["All is even."]}

    builder = SimpleNamespace(remote=lambda url: SimpleNamespace(getOrCreate=lambda: url))
    sql = ModuleType("pyspark.sql")
    sql.SparkSession = SimpleNamespace(builder=builder)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark.sql", sql)
    monkeypatch.setattr(type(ANALYSES["topic-profile"]), "load", lambda self: job)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(script)
    runpy.run_path(str(tmp_path / "script.py"), run_name="__main__")
    assert calls == [("local[*]", PARAMETERS, STORES, Path("result"))]
    assert json.loads((tmp_path / "result" / "result.json").read_text())["conclusions"]
    assert capsys.readouterr().out.splitlines() == ["reading 1/2", "All is even."]
