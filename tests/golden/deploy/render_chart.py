"""Renders the Helm chart with several values into files, which are tested where there is no ``helm``, too:
``python -m tests.golden.deploy.render_chart``."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.support.import_graph import ROOT

CHART = ROOT / "deploy" / "helm" / "magnetar"
FOLDER = Path(__file__).parent / "chart"
KUBERNETES = "1.33"
VARIANTS: dict[str, dict[str, str]] = {
    "default": {},
    "everything": {
        "components.worker": "true",
        "gateway.redis.url": "rediss://redis:6379/0",
        "gateway.database.url": "postgresql://magnetar@db:5432/magnetar",
        "gateway.ingress.enabled": "true",
        "gateway.ingress.hostname": "console.example.org",
        "podMonitor.enabled": "true",
    },
    "open": {
        "tls.enabled": "false",
        "auth.authentication.enabled": "false",
        "insecureAnywhere": "true",
        "bookkeeper.volumes.persistence": "false",
        "zookeeper.volumes.persistence": "false",
        "gateway.volumes.persistence": "false",
        "functions.runAsUsers": "",
    },
}
"""Values by the name of their file."""


class RenderError(Exception):
    """The chart refuses the values, or is wrong; the text is helm's."""


def find_helm() -> str | None:
    """Return the path of helm, on the PATH or in .tools; None without one."""
    unpacked = ROOT / ".tools" / "helm"
    return shutil.which("helm") or (str(unpacked) if unpacked.is_file() else None)


def render(helm: str, values: dict[str, str]) -> list[dict[str, Any]]:
    """Return all objects. Raises RenderError."""
    options = [part for name, value in values.items() for part in ("--set", f"{name}={value}")]
    command = [helm, "template", "rel", str(CHART), "--namespace", "prod"]
    command += ["--kube-version", KUBERNETES, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RenderError(done.stderr)
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def text_of(objects: list[dict[str, Any]]) -> str:
    """Return the contents of a file: an object in each line."""
    return mark() + "".join(f"{json.dumps(item, sort_keys=True)}\n" for item in objects)


def objects_of(name: str) -> list[dict[str, Any]]:
    """Return the objects of a file."""
    return [json.loads(line) for line in (FOLDER / f"{name}.txt").read_text().splitlines()[1:]]


def mark() -> str:
    """Return the first line of a file, which names the state of the chart that it was made from."""
    digest = hashlib.sha256()
    for path in sorted(path for path in CHART.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(CHART)}\n".encode() + path.read_bytes())
    return f"# Made by tests/golden/deploy/render_chart.py from the chart {digest.hexdigest()}\n"


def main() -> None:
    """Write the files."""
    helm = find_helm()
    if helm is None:
        raise SystemExit("helm is missing: go install helm.sh/helm/v3/cmd/helm@latest")
    FOLDER.mkdir(exist_ok=True)
    for name, values in VARIANTS.items():
        (FOLDER / f"{name}.txt").write_text(text_of(render(helm, values)))


if __name__ == "__main__":
    main()
