"""A viewer is required wherever lists, sums or exports are made: channels, selectors, the index, and views of lists."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, get_type_hints

import pytest

import admin_ui
from admin_ui.calls import SnapshotView
from admin_ui.live import CHANNELS
from admin_ui.resources import RESOURCES
from engine.admin.api.schemas import GivenSchema
from engine.auth.actions import Action
from engine.auth.resource_names import SubscriptionName
from engine.auth.rights import Right
from engine.auth.viewer import Viewer
from engine.base.names import BundleName, NamespaceName, TopicName
from gateway.http.auth.access import declared_rights
from gateway.rest.urls import table
from gateway.services.attention.board import Board
from gateway.services.collection.snapshot import Snapshot
from gateway.services.index.listed_topics import ListedTopics
from gateway.services.index.sums import IndexSums
from gateway.services.subscriptions.subscription_index import SubscriptionIndex

JUDGED = (TopicName, NamespaceName, SubscriptionName, BundleName, GivenSchema)
"""Types of what a caller names: it is judged before, and the answer is about that alone."""
OF_ALL = {
    "admin_ui.access.selectors": {
        "records_of": "records of a place that the right judges",
    },
    "admin_ui.analyses.selectors": {
        "analyses": "the analyses that exist",
        "row": "the shape of a run",
        "schedule_row": "the shape of a schedule",
    },
    "admin_ui.broker_settings.selectors": {
        "stored": "settings, of a change by a superuser",
        "ask_brokers": "settings, of a change by a superuser",
        "row": "the shape of a setting",
        "behind": "the shape of a setting",
        "silent": "the shape of a setting",
    },
    "admin_ui.changes.selectors": {
        "row": "the shape of a change set",
        "detail": "the shape of a change set",
        "listed": "change sets of the caller's role, or of all for superusers",
        "items": "objects of a change set that the caller may see",
    },
    "admin_ui.cluster.selectors": {
        "bundle_map": "a part of the cluster",
        "address_checks": "a part of the cluster",
        "addresses": "addresses that brokers send to all clients",
        "combined": "bundles that a superuser chose",
        "broker_names": "names of brokers, of a change by a superuser",
        "broker_of": "names of brokers, of a change by a superuser",
        "address_of": "names of brokers, of a change by a superuser",
        "answering_brokers": "number of brokers, of a change by a superuser",
        "state_of": "state of a broker, of a change by a superuser",
        "drain_row": "a drain, of those that a viewer who sees everything was shown",
    },
    "admin_ui.repair.selectors": {
        "lost": "bookies, of an answer to a superuser",
        "decommission_row": "the shape of a decommission",
        "counts": "the shape of a share",
        "state_now": "the state of repair, of a change by a superuser",
    },
    "admin_ui.connections.selectors": {
        "gathered": "a part of the cluster",
        "filter_of": "parameters",
    },
    "admin_ui.transactions.selectors": {"row": "a transaction, of a change by a superuser"},
    "admin_ui.functions.selectors": {
        **dict.fromkeys(
            ("function", "log", "code", "row", "shown_config", "promised", "end_of"),
            "a function of a namespace, whose right is judged",
        ),
        "gathered": "a part of the cluster",
        "filter_of": "parameters",
        "connectors": "what the release has built in",
        "component_named": "a part of a path",
    },
    "admin_ui.environment.selectors": {
        "stored": "names of clusters, and the address for clients",
        "environment": "names of clusters, and the address for clients",
    },
    "admin_ui.health.selectors": {
        "health": "states of the instance's parts, which name nothing of a tenant",
        "beat": "states of the instance's parts, which name nothing of a tenant",
    },
    "admin_ui.overview.selectors": {"start_command": "a command line of the machine"},
    "admin_ui.people.selectors": {
        "person_row": "people, who are superusers' to read",
        "people": "people, who are superusers' to read",
        "row": "the shape of a person",
    },
    "admin_ui.policies.selectors": {"row": "the shape of a policy", "exact": "a value's shape"},
    "admin_ui.schemas.selectors": {"pretty": "a definition's shape"},
    "admin_ui.session.selectors": {
        "caller": "the caller",
        "providers": "names of providers, as the page of sign-in shows them",
        "session": "the caller",
    },
    "admin_ui.topics.export": {"format_of": "a parameter"},
    "admin_ui.messages.selectors": dict.fromkeys(
        ("filter_of", "is_compacted", "start_of"), "parameters"
    ),
    "admin_ui.topics.selectors": {"chosen_of": "parameters"},
}
"""Functions without a viewer, with what they are about."""
VIEWS_OF_ALL = {
    "AddressesView": "addresses that brokers send to all clients",
    "EnvironmentView": "names of clusters, and the address for clients",
    "HealthView": "states of the instance's parts, which name nothing of a tenant",
    "ViewsView": "the caller's own saved views",
    **dict.fromkeys(
        (
            *("FunctionConnectorsResource", "SourceConnectorsResource", "SinkConnectorsResource"),
            *("SourceConfigDefinitionResource", "SinkConfigDefinitionResource"),
            *("FunctionBuiltInFunctionsResource", "OlderConnectorsResource"),
        ),
        "the connectors that are built in",
    ),
    "AnalysesView": "the analyses that exist",
    "SparkView": "whether the machine has Spark",
    **dict.fromkeys(
        ("RunsView", "RunView", "DownloadView", "ScriptView", "ComparisonView"),
        "runs, each judged by what it reads",
    ),
    **dict.fromkeys(("CopiesView", "CopyView"), "copies, each judged by what it reads"),
    "SchedulesView": "schedules, each judged by what it reads",
    **dict.fromkeys(
        ("ChangeSetsView", "ChangeSetView", "ChangeSetItemsView"),
        "change sets of the caller's role, or of all for superusers",
    ),
    **dict.fromkeys(
        ("RulesView", "ChannelsView", "FiringsView", "SilencesView"),
        "alerts of the tenant that the query names, which is judged, or of all for superusers",
    ),
    **dict.fromkeys(("PrometheusRulesView", "DashboardView"), "rules, as RulesView"),
    **dict.fromkeys(
        ("FunctionView", "FunctionLogView", "FunctionCodeView"),
        "a function of a namespace, whose right is judged",
    ),
    "ConnectorsView": "what the release has built in",
    "MayView": "the caller's own rights",
    "OwnTokensView": "the caller's own tokens",
    "GrantsView": "the grants of the place that the query names, which is judged",
    "SessionView": "the caller",
    "SessionsView": "the caller's own sessions",
    "ReadyResource": "no content",
    "VersionResource": "the version",
    "ClustersResource": "names of clusters",
    "MetricsResource": "Pulsar's public page of metrics",
    "StatusResource": "Pulsar's public page for load balancers",
    "TenantResource": "the definition of the tenant that the path names",
}
"""Reading views without a viewer that are open to more callers than superusers, with what they are about."""
OF_THE_CONSOLE = {
    "RunLogView",
    *("PayloadRulesView", "PeopleView", "PersonSessionsView", "PersonView", "TokensView"),
}
"""Views of superusers about records of the console itself, which are of no tenant."""
ABOUT_NAMESPACE = frozenset(
    {
        *("AntiAffinityResource", "BundlesResource", "LookupBundleResource", "NamespaceView"),
        *("NamespaceGrantsResource", "NamespacePropertiesResource", "NamespacePropertyResource"),
        "OffloadedLedgersResource",
        *("NamespaceQuotasResource", "NamespaceResource", "NamespaceResourceGroupResource"),
        "SubscriptionGrantsResource",
        *("PackageNamesResource", "PackageVersionsResource", "PackageVersionResource"),
        "PackageMetadataResource",
        *(
            f"{component}{view}Resource"
            for component in ("Function", "Source", "Sink")
            for view in ("Names", "ComponentConfig", "Status")
        ),
        *("FunctionStatsResource", "FunctionStateResource", "FunctionCodeResource"),
        *("OlderNamesResource", "OlderDetailsResource", "OlderFunctionStatusesResource"),
        "OlderStateResource",
    }
)
"""Views about the namespace that the path names, which is judged; they name no other, and list no topics."""
INDEX = {
    IndexSums: {"add", "remove", "replace"},
    ListedTopics: {"recall", "drop_unused", "certain", "partitions"},
    Snapshot: set(),
    Board: {
        *("topics_of", "cause_of", "trouble_of", "lags", "recorded", "recall"),
        *("clients_changed", "round", "subscriptions_of", "cause_of_subscription"),
        # of rules, which have those of their scope alone
        *("items_of_parts", "problem_item"),
    },
    SubscriptionIndex: {
        *("report", "end", "read_at_rest", "place", "remove", "drop_unused", "get", "late"),
        "of_topic",
    },
}
"""Doors to the numbers of all topics, with methods that change them, or that are about topics which the caller names or
has selected."""


def modules() -> Iterator[ModuleType]:
    for module in pkgutil.walk_packages(admin_ui.__path__, "admin_ui."):
        if module.name.rpartition(".")[2] in ("selectors", "export"):
            yield importlib.import_module(module.name)


def is_of_a_viewer(function: Callable[..., Any]) -> bool:
    """Return whether the first argument, ``self`` left out, is a viewer."""
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    return names[:1] == ["viewer"] and get_type_hints(function)["viewer"] is Viewer


def is_of_something_judged(function: Callable[..., Any]) -> bool:
    hints = get_type_hints(function)
    return any(hints.get(name) in JUDGED for name in inspect.signature(function).parameters)


def without_viewer(module: ModuleType) -> set[str]:
    return {
        name
        for name, function in vars(module).items()
        if inspect.isfunction(function)
        and function.__module__ == module.__name__
        and not name.startswith("_")
        and not is_of_a_viewer(function)
        and not is_of_something_judged(function)
    }


def test_each_selector_and_export_is_of_a_viewer_or_of_something_judged() -> None:
    by_module = {module.__name__: without_viewer(module) for module in modules()}
    assert {name: missing for name, missing in by_module.items() if missing} == {
        name: set(functions) for name, functions in OF_ALL.items()
    }


def test_each_channel_makes_its_body_for_a_viewer() -> None:
    assert [name for name, channel in CHANNELS.items() if not is_of_a_viewer(channel.body)] == []


def test_each_selector_of_a_view_is_of_a_viewer() -> None:
    views = [view for resource in RESOURCES for view in resource.routes.values()]
    selectors = [view.selector for view in views if issubclass(view, SnapshotView)]
    assert selectors
    assert [selector for selector in selectors if not is_of_a_viewer(selector)] == []


@pytest.mark.parametrize("door", INDEX, ids=lambda door: door.__name__)
def test_the_doors_to_all_topics_are_of_a_viewer(door: type[Any]) -> None:
    missing = {
        name
        for name, function in vars(door).items()
        if inspect.isfunction(function)
        and not name.startswith("_")
        and not is_of_a_viewer(function)
    }
    assert missing == INDEX[door]


def reading(rights: tuple[Right[Any], ...]) -> str:
    """Return how a view that reads is guarded."""
    kinds = {right.kind for right in rights}
    if rights and all(right.kind in (TopicName, SubscriptionName) for right in rights):
        return "about one topic"
    if {right.action for right in rights} == {Action.SUPERUSER}:
        return "superuser's"
    return "about one namespace" if kinds == {NamespaceName} else "other"


def views() -> Iterator[tuple[str, str, bool]]:
    """Yield the name of each view that reads, how it is guarded, and whether it asks for the viewer."""
    console = [view for resource in RESOURCES for view in resource.routes.values()]
    rest = [view for _, view, _ in table()]
    for view in dict.fromkeys([*console, *rest]):
        rights = declared_rights(view).get("GET")
        if rights is None:
            continue
        asks = "viewer" in inspect.getsource(view.get)
        yield view.__name__, reading(rights), asks


def test_each_view_of_a_list_asks_for_the_viewer() -> None:
    missing = {
        name
        for name, guard, asks in views()
        if not asks and guard in ("other", "about one namespace") and "PolicyResource" not in name
    }
    assert missing == VIEWS_OF_ALL.keys() | ABOUT_NAMESPACE


def test_each_list_of_the_console_asks_for_the_viewer_although_only_superusers_read_it() -> None:
    console = {view.__name__ for resource in RESOURCES for view in resource.routes.values()}
    missing = {
        name
        for name, guard, asks in views()
        if name in console and guard == "superuser's" and not asks
    }
    assert missing == OF_THE_CONSOLE
