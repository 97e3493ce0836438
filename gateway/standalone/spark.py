"""Start of Spark's server: ``python -m gateway.standalone.spark ARGUMENTS`` finds Java and Spark, then becomes
``spark-submit``. An instance thereby needs neither until an analysis is started."""

import os
import sys
from pathlib import Path

from engine.base.settings import SettingsError
from gateway.standalone.on_demand.class_archive import with_archive
from gateway.standalone.programs import SPARK_REMEDY, ProgramMissingError, java_home, package_dir
from gateway.standalone.settings import PROGRAM


def main(arguments: list[str]) -> None:
    """Replace this process by ``spark-submit`` with ``arguments``; exit with EX_CONFIG when a program is missing."""
    try:
        data_dir = PROGRAM.load(os.environ, Path.cwd(), {}).instance.data_dir
        spark_home = package_dir("pyspark")
        if spark_home is None:
            raise ProgramMissingError(f"Spark is not installed. Mend it with: {SPARK_REMEDY}")
        java = java_home(data_dir / "java")
    except (ProgramMissingError, SettingsError) as error:
        print(f"CRITICAL cannot start: {error}", file=sys.stderr)
        sys.exit(os.EX_CONFIG)  # The supervisor does not restart a process that ends with it.
    env = {**os.environ, "JAVA_HOME": str(java), "SPARK_HOME": str(spark_home)}
    submit = spark_home / "bin" / "spark-submit"
    os.execve(submit, [str(submit), *with_archive(arguments, spark_home)], env)


if __name__ == "__main__":
    main(sys.argv[1:])
