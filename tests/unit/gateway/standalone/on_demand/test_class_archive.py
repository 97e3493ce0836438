"""The archive of Spark's classes: where it is made and used, with a Spark that is a script."""

import os
import sys
from pathlib import Path

import pytest

from gateway.standalone.on_demand import class_archive
from gateway.standalone.on_demand.class_archive import archive_of, create, with_archive

ARGUMENTS = ["--conf", "spark.driver.extraJavaOptions=-Xss1m", "--conf", "spark.ui.enabled=false"]
SERVER = """#!/bin/sh
for word in "$@"; do
  case "$word" in
    spark.driver.extraJavaOptions=*) archive="${word#*ArchiveClassesAtExit=}";;
    spark.connect.grpc.binding.port=*) port="${word#*=}";;
  esac
done
exec PYTHON -c '
import signal, socket, sys, time
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
def end(*_):
    open(sys.argv[2], "w").write("classes")
    sys.exit()
signal.signal(signal.SIGTERM, end)
time.sleep(60)
' "$port" "${archive%% *}"
"""


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "pyspark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark.jar").touch()
    (home / "bin").mkdir()
    monkeypatch.setattr(class_archive, "package_dir", lambda name: home)
    monkeypatch.setattr(class_archive, "java_home", lambda shim: tmp_path / "java")
    monkeypatch.setattr(class_archive, "WORK", "this")
    return home


def submit(spark_home: Path, text: str) -> None:
    path = spark_home / "bin" / "spark-submit"
    path.write_text(text.replace("PYTHON", sys.executable))
    path.chmod(0o755)


def test_the_archive_is_made_once_and_again_for_newer_jars(spark_home: Path) -> None:
    submit(spark_home, SERVER)
    assert create() == ""
    assert archive_of(spark_home).read_text() == "classes"
    submit(spark_home, "#!/bin/sh\nexit 1\n")
    assert create() == ""
    os.utime(spark_home / "jars" / "spark.jar", (2**32, 2**32))
    assert create() == "Java wrote no archive of Spark's classes"
    assert sorted(path.name for path in spark_home.iterdir()) == ["bin", "classes.jsa", "jars"]


def test_without_a_spark_that_runs_the_reason_is_returned(spark_home: Path) -> None:
    assert "spark-submit" in create()
    assert not archive_of(spark_home).exists()


def test_the_archive_is_used_if_there_is_one(spark_home: Path) -> None:
    assert with_archive(ARGUMENTS, spark_home) == ARGUMENTS
    archive_of(spark_home).touch()
    _, options, *others = with_archive(ARGUMENTS, spark_home)
    assert options.startswith(
        f"spark.driver.extraJavaOptions=-Xss1m -XX:SharedArchiveFile={archive_of(spark_home)} "
    )
    assert others == ARGUMENTS[2:]
