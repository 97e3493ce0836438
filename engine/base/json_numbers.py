"""The numbers that Python's decoder of JSON reads, and JSON does not have. Pure."""

from typing import NoReturn


def refuse_constant(name: str) -> NoReturn:
    """Raise ValueError: NaN and the infinities are no JSON, so that other programs cannot read them. It is the
    ``parse_constant`` of ``json.loads``."""
    raise ValueError(f"{name} is no JSON number")
