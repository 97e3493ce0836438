"""Known mistakes, planted into the shipped code for a run: the campaign must find every one of them."""

import contextlib
from collections.abc import Callable, Iterator

PLANTS: dict[str, Callable[[], "contextlib.AbstractContextManager[None]"]] = {}


@contextlib.contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Run the block with the mistake ``name`` in place."""
    if name is None:
        yield
        return
    with PLANTS[name]():
        yield
