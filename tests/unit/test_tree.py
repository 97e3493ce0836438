"""The tree's shape: folders of bounded size, no import cycles, one meaning for one name."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.support.import_graph import PACKAGES, ROOT, generated, graph, imported, sources

FRONT_END = ("frontend/src", "frontend/testing")
FILES_MAX = 16

SAME_FILE_NAME = {
    "__main__": "what `python -m` runs",
    "api": "what the package answers when it is called: REST of a resource of the console",
    "client": "how others use the package",
    "errors": "what the package raises",
    "live": "pushed changes: the console's socket, a resource's channels",
    "metrics": "what the package counts; in engine.base, how counting is done",
    "ports": "the protocols that the package requires of others",
    "records": "the layouts of what the package stores",
    "rights": "what calls need; in engine.auth, what a right is",
    "selectors": "what a resource of the console reads",
    "server": "what answers the requests of other processes",
    "services": "what a resource of the console changes",
    "settings": "what can be configured of the package",
    "shapes": "serializers of a resource's bodies and answers",
    **dict.fromkeys(
        (
            "brokers",
            "bundles",
            "cursors",
            "dynamic_settings",
            "messages",
            "policies",
            "rows",
            "schemas",
            "statistics",
            "subscriptions",
            "topics",
            "traces",
            "transactions",
        ),
        "a resource: what this layer knows of it, declares or does with it",
    ),
}
"""File names that engine, bookie and the console may have several times, with the meaning of each."""

SAME_CLASS_NAME: dict[str, str] = {
    "AddWatch": "a request of ZooKeeper's protocol; the ledger's is a watch of an addition",
    "MultiRead": "a request of ZooKeeper's protocol, on the server's side and in kazoo's form",
    "Record": "of a journal; a connector's is a message on its way",
    "Sink": "of a compaction; a connector's writes messages elsewhere",
    "Source": "of a managed ledger's reads; a connector's reads from elsewhere",
    "Stat": "ZooKeeper's state of a node; the store's is the part that every store has",
}
"""Names that several public classes of engine and bookie may have, with the reason."""

WORLD = {"asyncio", "logging", "os", "random", "socket", "subprocess", "threading", "time"}
"""Modules that a pure module must not import."""


def in_circles(uses: dict[str, set[str]]) -> set[str]:
    """Return the modules that import themselves through others."""
    left = dict(uses)
    while ends := [module for module in left if not left[module] & left.keys()]:
        for module in ends:
            del left[module]
    return {module for module in left if module in reached(left, module)}


def reached(uses: dict[str, set[str]], start: str) -> set[str]:
    modules: set[str] = set()
    ahead = [start]
    while ahead:
        new = uses.get(ahead.pop(), set()) - modules
        modules |= new
        ahead += new
    return modules


def test_a_cycle_does_not_include_modules_that_only_lead_to_it() -> None:
    uses = {"a": {"b"}, "b": {"c", "d"}, "c": {"b"}, "d": {"e"}, "e": set()}
    assert in_circles(uses) == {"b", "c"}


def test_no_imports_form_a_cycle() -> None:
    assert in_circles(graph()) == set()


def test_the_number_of_files_of_a_folder_is_bounded() -> None:
    counts: dict[str, int] = defaultdict(int)
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    paths += [path for folder in FRONT_END for path in (ROOT / folder).rglob("*.ts*")]
    for path in paths:
        if not generated(path) and path.name != "__init__.py":
            counts[str(path.parent.relative_to(ROOT))] += 1
    assert {folder: count for folder, count in counts.items() if count > FILES_MAX} == {}


def shipped(*roots: str) -> Iterator[tuple[str, ast.Module]]:
    for module, tree in sources().items():
        if module.partition(".")[0] in roots:
            yield module, tree


def twice(names: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = defaultdict(list)
    for name, module in names:
        places[name].append(module)
    return {name: modules for name, modules in places.items() if len(modules) > 1}


def test_one_class_name_means_one_thing() -> None:
    repeated = twice(
        (node.name, module)
        for module, tree in shipped("engine", "bookie")
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert repeated.keys() == SAME_CLASS_NAME.keys(), repeated


def test_one_file_name_means_one_thing() -> None:
    ours = shipped("engine", "bookie", "admin_ui")
    files = ((module.rpartition(".")[2], module) for module, _ in ours if not package(module))
    repeated = twice(files)
    assert repeated.keys() == SAME_FILE_NAME.keys(), repeated


def package(module: str) -> bool:
    return (ROOT / module.replace(".", "/")).is_dir()


def test_pure_modules_import_no_input_output_and_no_clock() -> None:
    for module, tree in sources().items():
        if "Pure." in (ast.get_docstring(tree) or ""):
            touched = {name.partition(".")[0] for name in imported(tree)} & WORLD
            assert not touched, f"{module} calls itself pure and imports {touched}"


DECOMPOSED = re.compile(
    r"""r?partition\((PARTITION_SUFFIX|"-partition-)|\.r?split\("/", 3\)|\.r?partition\("://"\)"""
)
"""Code that splits the name of a topic or of a partition by hand."""
BY_HAND = {
    "admin_ui/changes/definition_components.py": "URLs of packages, no topics",
    "admin_ui/changes/definition_files.py": "URLs of packages, no topics",
    "engine/base/names.py": "split_topic, split_partition: what all others use",
    "engine/base/addresses.py": "URLs of servers, no topics",
    "engine/metadata/apart/stores.py": "URLs of stores, no topics",
    "engine/metadata/connect.py": "URLs of members, no topics",
    "engine/metadata/paths.py": "encoded names, to group what is cached: too much in a group is harmless",
    "engine/broker/administration/tiers/offloader_metrics.py": "names of ledgers, to label what is summed",
    "engine/offload/stores/providers.py": "a URL of a store, no topics",
    "gateway/environment.py": "a URL of a folder, no topics",
    "gateway/services/admin/brokers.py": "addresses, no topics",
    "gateway/services/functions/deploying.py": "a URL of a package, no topics",
    "gateway/redis_link.py": "a URL of a server, no topics",
    "gateway/ws/paths.py": "raw paths before they are decoded",
}


def test_names_of_topics_are_split_in_one_place() -> None:
    splitting = {
        name
        for package in PACKAGES
        if package != "tests"
        for path in (ROOT / package).rglob("*.py")
        if not generated(path) and DECOMPOSED.search(path.read_text())
        for name in [str(path.relative_to(ROOT))]
    }
    assert splitting <= BY_HAND.keys()
