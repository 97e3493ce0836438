"""A planted mistake, and its installation for a run."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest.mock import patch

Patches = list[tuple[Any, str, Any]]
"""Owner (class or module), attribute, and its replacement."""


class Plant(NamedTuple):
    """Known mistake; ``workload`` names the campaign that is to find it."""

    workload: str
    make: Callable[[], Patches]

    @property
    def text(self) -> str:
        return " ".join((self.make.__doc__ or "").split())


@contextlib.contextmanager
def applied(patches: Patches) -> Iterator[None]:
    """Run the block with the patches in place. Raises AttributeError when the code no longer has such a place."""
    with contextlib.ExitStack() as stack:
        for owner, attribute, value in patches:
            stack.enter_context(patch.object(owner, attribute, value))
        yield
