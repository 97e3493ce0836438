"""Prometheus' text format, for the pages that the engine's servers write themselves."""

from collections.abc import Iterable

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Content type of the format."""


def described(name: str, kind: str, text: str, samples: Iterable[tuple[str, object]]) -> str:
    """Return the lines of one family of metrics. ``samples``: labels, as ``labels_of`` writes them, with their value;
    None is left out."""
    lines = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    lines += [f"{name}{{{labels}}} {value}" for labels, value in samples if value is not None]
    return "\n".join([*lines, ""])


def labels_of(**pairs: str) -> str:
    """Return labels with their values escaped."""
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs.items())


def _escaped(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value
