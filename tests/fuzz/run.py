"""``python -m tests.fuzz.run --seconds N``: N seconds over all parsers (or those named), guided by coverage where
atheris is installed, plain seeded mutation otherwise. Prints executions and findings of each; status 1 for a finding.
"""

import argparse
import importlib.util
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

INSTRUMENTED = (
    "bookie.storage",
    "engine.wire",
    "engine.metadata",
    "engine.managed",
    "engine.schema",
    "engine.ledger",
)
INPUT_BYTES_MAX = 16 << 10
MEMORY_BYTES_MAX = 3 << 30


def guided(name: str, seconds: float) -> tuple[int, list[str]]:
    """Fuzz in a process of its own, which libFuzzer ends; return the executions and the findings (it stops at the
    first)."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "tests.fuzz.run", "--child", name]
        command += ["--seconds", str(seconds), "--directory", directory]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        report = done.stderr + done.stdout
    counts = re.findall(r"stat::number_of_executed_units:\s*(\d+)", report)
    counts = counts or re.findall(r"^#(\d+)\s", report, re.MULTILINE)
    tried = int(counts[-1]) if counts else 0
    if done.returncode == 0 and tried:
        return tried, []
    lines = [line for line in report.splitlines() if line.startswith(("FoundError", "Error"))]
    return tried, lines[:1] or [f"fuzzer ended with {done.returncode}: {report[-300:]}"]


def child(name: str, seconds: float, directory: str) -> None:
    """Fuzz one target under libFuzzer; does not return."""
    import atheris

    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        from tests.fuzz.oracle import execute
        from tests.fuzz.targets import TARGETS

    [target] = [target for target in TARGETS if target.name == name]
    corpus = Path(directory) / "corpus"
    corpus.mkdir()
    for i, seed in enumerate(target.seeds):
        (corpus / str(i)).write_bytes(seed[:INPUT_BYTES_MAX])
    words = Path(directory) / "words"
    lines = ["".join([f"\\x{byte:02x}" for byte in word[:60]]) for word in target.words]
    words.write_text("".join([f'"{line}"\n' for line in lines]))
    options = [
        f"-max_total_time={max(1, round(seconds))}",
        f"-max_len={INPUT_BYTES_MAX}",
        "-timeout=10",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        "-seed=1",
        f"-artifact_prefix={directory}/",
    ]
    if target.words:
        options.append(f"-dict={words}")
    atheris.Setup(["fuzz", *options, str(corpus)], lambda data: (execute(target, data), None)[1])
    atheris.Fuzz()


def limit_memory() -> None:
    """Limit the address space, so that an allocation of gigabytes fails at once with a MemoryError."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="for all parsers together")
    parser.add_argument("--plain", action="store_true", help="without atheris even if it is there")
    parser.add_argument("names", nargs="*", help="parsers, all if none is named")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--directory", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.seconds, arguments.directory)
    from tests.fuzz.oracle import executions
    from tests.fuzz.targets import TARGETS

    limit_memory()
    targets = [t for t in TARGETS if not arguments.names or t.name in arguments.names]
    if not targets:
        parser.error(f"parsers are: {', '.join(t.name for t in TARGETS)}")
    with_atheris = not arguments.plain and importlib.util.find_spec("atheris") is not None
    print("guided by coverage" if with_atheris else "plain mutation, atheris is not installed")
    share = arguments.seconds / len(targets)
    total = count = 0
    for target in targets:
        if with_atheris:
            tried, findings = guided(target.name, share)
        else:
            tried, _, findings = executions(target, share)
        total += tried
        count += len(findings)
        print(f"{target.name:28} {tried:9} executions  {len(findings)} findings", flush=True)
        for finding in findings:
            print(f"    {finding[:1000]}")
    print(f"{total} executions of {len(targets)} parsers, {count} findings")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
