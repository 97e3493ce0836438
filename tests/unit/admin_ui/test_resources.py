"""The console's resources: a folder and a line each, named nowhere else."""

from collections import Counter
from pathlib import Path

from admin_ui.calls import ClusterView
from admin_ui.resources import RESOURCES
from tests.support.import_graph import ROOT, sources


def test_every_folder_of_a_resource_is_in_the_list() -> None:
    folders = {path.parent.name for path in Path(ROOT / "admin_ui").glob("*/api.py")}
    views = {view for resource in RESOURCES for view in resource.routes.values()}
    packages = {view.__module__.rpartition(".")[0] for view in views}
    assert packages == {f"admin_ui.{name}" for name in folders}


def test_routes_channels_and_operations_are_each_named_once() -> None:
    # A route of a cluster is below the cluster's path.
    routes = [
        (issubclass(view, ClusterView), route)
        for resource in RESOURCES
        for route, view in resource.routes.items()
    ]
    channels = [channel.name for resource in RESOURCES for channel in resource.channels]
    views = [view for resource in RESOURCES for view in resource.routes.values()]
    operations = [call.operation for view in views for call in view.calls.values()]
    for names in (routes, channels, operations):
        assert {name: times for name, times in Counter(names).items() if times > 1} == {}


def test_every_method_of_a_view_is_described() -> None:
    for resource in RESOURCES:
        for view in resource.routes.values():
            methods = {"get", "post", "put", "patch", "delete"}
            assert {name for name in methods if hasattr(view, name)} == view.calls.keys(), view


def test_the_gateway_names_the_console_among_its_apps_only() -> None:
    naming = {}
    for module in sources():
        if module.startswith("gateway"):
            path = ROOT / (module.replace(".", "/"))
            text = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
            if times := text.count("admin_ui"):
                naming[module] = times
    assert naming == {"gateway.settings": 1}
