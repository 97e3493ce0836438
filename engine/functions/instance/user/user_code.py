"""Loads the user's code and makes it one call, as Apache's Python runtime does."""

import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.base.errors import MagnetarError

Call = Callable[[Any, Any], Any]
"""The user's code as a call of (input, context)."""


class UserCodeError(MagnetarError):
    """The user's code cannot be loaded; the text names what is missing."""


_loading = threading.Lock()
_added: set[str] = set()
"""The folders of all code that was loaded in this process: of several instances where they are threads."""


@contextmanager
def code_first(code: Sequence[str]) -> Iterator[None]:
    """Put the user's code in front of everything on ``sys.path``, for imports within the ``with`` block and later ones.

    Modules of users that were loaded before are forgotten: another function, or the same one before an update, may
    have modules of the same names. They are used on by those that imported them. Blocks while another thread is within.
    """
    with _loading:
        for name, module in list(sys.modules.items()):
            if _is_of_users(module):
                del sys.modules[name]
        importlib.invalidate_caches()
        sys.path[:] = [*code, *(path for path in sys.path if path not in code)]
        _added.update(code)
        yield


def _is_of_users(module: Any) -> bool:
    places = [getattr(module, "__file__", None), *(getattr(module, "__path__", None) or ())]
    return any(
        Path(place).is_relative_to(folder)
        for place in places
        if isinstance(place, str)
        for folder in _added
    )


def load(name: str) -> Any:
    """Import ``module.Name`` or ``module``, whichever exists. Raises UserCodeError; what the module raises passes
    through."""
    module, _, attribute = name.rpartition(".")
    if not module:
        return _module(name)
    try:
        loaded = _module(module)
    except UserCodeError:
        return _module(name)
    if not hasattr(loaded, attribute):
        try:
            return _module(name)
        except UserCodeError:
            raise UserCodeError(f"{module} has no {attribute}") from None
    return getattr(loaded, attribute)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Another name: a module of the user's imports what is not there, which its traceback shows best.
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        raise UserCodeError(f"no module {name} in the package") from error


def as_call(class_name: str) -> Call:
    """Return the user's class, object, function or module as a call of (input, context).

    A class is instantiated and its ``process`` gets the context; a bare module's ``process``, and a function of one
    argument, does not. Raises UserCodeError, and what the user's constructor raises.
    """
    loaded = load(class_name)
    if inspect.ismodule(loaded):
        if not callable(getattr(loaded, "process", None)):
            raise UserCodeError(f"module {class_name} has no function process(input)")
        return _arity(loaded.process, class_name, first=1)
    if inspect.isclass(loaded):
        loaded = loaded()
    process = getattr(loaded, "process", None)
    if callable(process):
        return _arity(process, f"{class_name}.process", first=2)
    if callable(loaded):
        return _arity(loaded, class_name, first=1)
    raise UserCodeError(
        f"{class_name} is neither a class with process(input, context) nor callable"
    )


def _arity(function: Callable[..., Any], name: str, first: int) -> Call:
    """Return ``function`` as a call of two arguments. ``first``: the number of arguments that is tried first, since a
    second one with a default need not be the context. Raises UserCodeError."""
    if inspect.iscoroutinefunction(function):
        raise UserCodeError(f"{name} is a coroutine; functions are called, not awaited")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin without a signature
        return lambda value, context: function(value)
    for count in (first, 3 - first):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return function if count == 2 else lambda value, context: function(value)
    raise UserCodeError(f"{name} takes neither (input, context) nor (input)")
