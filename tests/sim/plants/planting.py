"""What a planted mistake is, and how it is put in place for a run."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest.mock import patch

Patches = list[tuple[Any, str, Any]]
"""Owner (class or module), attribute, and what takes its place."""


class Plant(NamedTuple):
    """One known mistake. ``workload`` is the one whose campaign is to find it."""

    workload: str
    make: Callable[[], Patches]

    @property
    def text(self) -> str:
        return " ".join((self.make.__doc__ or "").split())


@contextlib.contextmanager
def applied(patches: Patches) -> Iterator[None]:
    """Run the block with the patches in place. Raises AttributeError when the code has no such place any more."""
    with contextlib.ExitStack() as stack:
        for owner, attribute, value in patches:
            stack.enter_context(patch.object(owner, attribute, value))
        yield
