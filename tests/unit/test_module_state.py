"""No module of the gateway or the console holds state of its own.

State of a process for one cluster is in its ``Cluster``, its other state in ``Clusters``: a second cluster would
otherwise share it by mistake.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.support.import_graph import ROOT

ALLOWED = {
    "gateway/alerts/services.py::_tested": "owners with their cluster, whose tests the threads send",
    "gateway/alerts/services.py::_tested_lock": "with ``_tested``",
    "gateway/alerts/services.py::_testers": "few threads send tests of channels, whichever cluster these are of",
    "gateway/asgi.py::application": "an ASGI server finds the application by this name",
    "gateway/celery.py::app": "Celery finds its application by this name",
    "gateway/copies/tasks.py::_stopping": "the end of the worker's process",
    "gateway/http/paths.py::_index": "an index of Django's routes, by their resolver",
    "gateway/http/static_files.py::_site": "files of the builds of console and documentation",
    "gateway/jobs/services.py::_sender": "one thread waits for Redis, whichever cluster a run is of",
    "gateway/jobs/spark.py::_lock": "with ``_session``",
    "gateway/jobs/spark.py::_session": "a process of the worker has one session with Spark",
    "gateway/jobs/tasks.py::_stopping": "the end of the worker's process",
    "gateway/services/health/parts.py::_probe": "one thread probes the database of the process",
    "gateway/services/metrics.py::brokers_up": "with ``registry``",
    "gateway/services/metrics.py::registry": "metrics are those of the process",
    "gateway/services/metrics.py::requests": "with ``registry``",
    "gateway/services/metrics.py::unusable_files": "with ``registry``",
    "gateway/urls.py::urlpatterns": "Django finds routes by this name",
    "gateway/rest/urls.py::urlpatterns": "Django finds routes by this name",
    "gateway/ws/routing.py::websocket_urlpatterns": "routes, as Django's",
    "gateway/ws/values.py::_shared": "decoders, equal for equal schemas of any cluster",
    "admin_ui/openapi.py::_GENERATING": "the settings of the generator are those of the process",
    "admin_ui/urls.py::_live": "with ``websocket_urlpatterns``",
    "admin_ui/urls.py::_tail": "with ``websocket_urlpatterns``",
    "admin_ui/urls.py::api_patterns": "with ``urlpatterns``",
    "admin_ui/urls.py::urlpatterns": "Django finds routes by this name",
    "admin_ui/urls.py::websocket_urlpatterns": "routes, as Django's",
}
"""Names that may be bound to state, with the reasons."""

VALUES = {
    *("compile", "frozenset", "tuple", "len", "JSONDecoder"),
    *("TypeVar", "ParamSpec", "getLogger"),
}
"""Functions whose results do not change."""
CONTAINERS = {
    *("dict", "list", "set", "bytearray", "defaultdict", "deque", "Counter", "OrderedDict"),
    *("WeakKeyDictionary", "WeakSet", "WeakValueDictionary", "ContextVar", "local"),
    *("Event", "Lock", "RLock", "Condition", "Semaphore", "Queue", "SimpleQueue"),
    *("Budget", "TaskScope", "ThreadPoolExecutor"),
}
"""Classes whose objects are state under any name."""
CHANGES = {
    *("add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove"),
    *("setdefault", "update"),
}
CACHES = {"cache", "cached", "lru_cache"}
DISPLAYS = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)


def name_of(node: ast.expr) -> str:
    """Return the last part of a dotted name; that of the called function of a call."""
    if isinstance(node, ast.Call):
        return name_of(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def bound(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that the module binds to values, with the values."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            assert isinstance(node.target, ast.Name)
            yield node.target.id, node.value


def changed(tree: ast.Module) -> Iterator[str]:
    """Yield names whose objects the code changes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield name_of(node.value)
        elif isinstance(node, ast.AugAssign):
            yield name_of(node.target)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in CHANGES
        ):
            yield name_of(node.func.value)


def states(tree: ast.Module) -> Iterator[str]:
    """Yield the names of a module's state: objects that may change, variables that functions bind, and caches."""
    changes = set(changed(tree))
    for name, value in bound(tree):
        is_constant = name.isupper()
        if isinstance(value, DISPLAYS):
            if name in changes or not (is_constant or name[0].isupper()):
                yield name
        elif isinstance(value, ast.Call):
            made = name_of(value)
            if made in CONTAINERS or (not is_constant and name.islower() and made not in VALUES):
                yield name
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names
        elif isinstance(node, ast.FunctionDef) and node.args.args:  # without, it is a constant
            yield from {node.name for by in node.decorator_list if name_of(by) in CACHES}


def found() -> set[str]:
    return {
        f"{path.relative_to(ROOT)}::{name}"
        for package in ("gateway", "admin_ui")
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in states(ast.parse(path.read_text()))
    }


def test_no_module_holds_state() -> None:
    assert found() - ALLOWED.keys() == set()


def test_each_exception_is_needed() -> None:
    assert ALLOWED.keys() - found() == set()


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("_kept: dict[str, int] = {}", {"_kept"}),
        ("KEPT = {}\ndef f(): KEPT['a'] = 1", {"KEPT"}),
        ("KEPT = []\ndef f(): KEPT.append(1)", {"KEPT"}),
        ("_current = None\ndef f():\n    global _current\n    _current = 1", {"_current"}),
        ("texts = RowTexts()", {"texts"}),
        ("LOCK = threading.Lock()", {"LOCK"}),
        ("@cache\ndef reader(path): ...", {"reader"}),
        ("NAMES = {'a': 1}\nlog = logging.getLogger('a')\nT = TypeVar('T')", set()),
    ],
)
def test_state_is_recognized(code: str, names: set[str]) -> None:
    assert set(states(ast.parse(code))) == names
