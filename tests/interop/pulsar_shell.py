"""Apache's pulsar-shell against a real instance."""

import os
import re
import subprocess
from pathlib import Path

# The settings of tests/oracle/peer.py: they halve the CPU time of a start.
LEAN = {"PEER_GC": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1", "PEER_MEM": "-Xms32m -Xmx512m"}


class Shell:
    """Commands for pulsar-shell, which runs all of them in one JVM: one JVM per command would take minutes."""

    def __init__(self, url: str, http: str, folder: Path) -> None:
        self._folder = folder
        self._target = f"webServiceUrl={http}\nbrokerServiceUrl={url}\n"

    def run(self, commands: list[str]) -> list[str]:
        """Run the commands; return the output of each."""
        script, conf = self._folder / "commands", self._folder / "client.conf"
        script.write_text("\n".join(commands) + "\n")
        conf.write_text(self._target)
        home = Path(os.environ.get("PEER_HOME", "~/.cache/magnetar-peer")).expanduser()
        (binary,) = home.glob("apache-pulsar-*/bin/pulsar-shell")
        memory = f"{LEAN['PEER_MEM']} {LEAN['PEER_GC']}"
        done = subprocess.run(
            [str(binary), "-c", str(conf), "-np", "-f", str(script)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=150,
            env={**os.environ, "PULSAR_MEM": memory, "HOME": str(self._folder)},
        )
        parts = re.split(r"^\[\d+/\d+\] Executing (.*)$", done.stdout, flags=re.MULTILINE)
        assert [name.strip() for name in parts[1::2]] == commands, done.stdout[-3000:]
        return [text.strip().removesuffix("Goodbye!").strip() for text in parts[2::2]]
