"""The right of every call and channel of the console and of every WebSocket endpoint, as one table to read."""

from collections.abc import Iterable
from typing import Any

from admin_ui.live import CHANNELS
from engine.auth.resource_names import SubscriptionName, TenantName, WholeCluster
from engine.auth.rights import Right, all_of
from engine.base.names import NamespaceName, TopicName
from gateway.http import paths as _converters  # noqa: F401 - registers the path converters
from gateway.http.auth.access import declared_rights
from gateway.ws.paths import KINDS
from gateway.ws.rights import RIGHTS

FUNCTION = "functions/<seg:component>/<seg:tenant>/<seg:namespace>/<seg:name>"
TOPIC = "topics/<seg:domain>/<seg:tenant>/<seg:namespace>/<seg:topic>"
NAMESPACE = "tenants/<seg:tenant>/namespaces/<seg:namespace>"
CLUSTER = "clusters/<seg:cluster>/"
WITH_AND_WITHOUT = (f"{CLUSTER}geo",)
"""Paths of a cluster that exist without the cluster as well: the table has them whole."""
WORDS = {
    WholeCluster: "cluster",
    TenantName: "tenant",
    NamespaceName: "namespace",
    TopicName: "topic",
    SubscriptionName: "subscription",
}
ADMIN_OF_PLACE = (
    "tenant admin of tenant, tenant admin of namespace, tenant admin of topic, superuser of cluster"
)
"""The right to administer the place that the query names, which is one of these."""
SEE_PLACE = "tenant admin of tenant, lookup of namespace, lookup of topic, superuser of cluster"
"""The right to see the place that the query names, which is one of these."""
MESSAGES = "consume of topic, consume of namespace, tenant admin of tenant, superuser of cluster"
"""The right to read what an analysis reads, which is one of these. Runs by their id are judged by it, too: one that the
caller may not see is answered as one that does not exist."""
OF_COMPONENT = "functions of namespace, sources of namespace, sinks of namespace"
"""The right to the component that the path names, which is one of these."""
CALLS = {
    "GET session": "public",
    "POST session/sign-in": "public",
    "POST session/set-up": "public",
    "POST session/sign-out": "authenticated",
    "POST session/acting-role": "authenticated",
    "POST session/view-as": "authenticated",
    "POST session/password": "authenticated",
    "GET session/sessions": "authenticated",
    "DELETE session/sessions/<seg:session_id>": "authenticated",
    "GET people": "superuser",
    "POST people": "superuser",
    "GET people/<seg:name>": "superuser",
    "PUT people/<seg:name>": "superuser",
    "DELETE people/<seg:name>": "superuser",
    "POST people/<seg:name>/reset-password": "superuser",
    "GET people/<seg:name>/sessions": "superuser",
    "DELETE people/<seg:name>/sessions": "superuser",
    "DELETE people/<seg:name>/sessions/<seg:session_id>": "superuser",
    "GET environment": "authenticated",
    "GET addresses": "authenticated",
    "GET load-balance": "superuser",
    "GET spark": "authenticated",
    "POST spark": "superuser",
    "POST support-bundle": "superuser",
    "GET health": "authenticated",
    "GET history": "lookup of topic, superuser of cluster",
    **dict.fromkeys(
        (
            *("GET alerts/rules", "POST alerts/rules", "POST alerts/preview"),
            *("PUT alerts/rules/<number:row_id>", "DELETE alerts/rules/<number:row_id>"),
            *("GET alerts/channels", "POST alerts/channels"),
            *("PUT alerts/channels/<number:row_id>", "DELETE alerts/channels/<number:row_id>"),
            "POST alerts/channels/<number:row_id>/test",
            *("GET alerts/firings", "POST alerts/firings/<number:row_id>/acknowledge"),
            *("GET alerts/silences", "POST alerts/silences"),
            "DELETE alerts/silences/<number:row_id>",
            *("GET alerts/prometheus-rules", "GET alerts/dashboard"),
        ),
        "tenant admin of tenant, superuser of cluster",
    ),
    "GET overview": "authenticated",
    "GET topics": "authenticated",
    # Of the new topic, and of the source that it may be a shadow of.
    "POST topics": "tenant admin of topic, tenant admin of topic",
    "GET topics/export": "authenticated",
    "GET subscriptions": "authenticated",
    "GET scopes": "authenticated",
    "GET TOPIC": "lookup of topic",
    "POST TOPIC/delete": "tenant admin of topic",
    "POST TOPIC/terminate": "tenant admin of topic",
    "POST TOPIC/unload": "tenant admin of topic",
    "POST TOPIC/partitions": "tenant admin of topic",
    "GET TOPIC/properties": "lookup of topic",
    "PUT TOPIC/properties": "tenant admin of topic",
    "GET TOPIC/traces": "consume of topic",
    "POST TOPIC/traces": "tenant admin of topic",
    "DELETE TOPIC/traces": "tenant admin of topic",
    "GET TOPIC/traces/opentelemetry": "consume of topic",
    "POST TOPIC/subscriptions/<seg:subscription>/skip-all": "consume of subscription",
    "POST TOPIC/subscriptions/<seg:subscription>/skip": "consume of subscription",
    "POST TOPIC/subscriptions/<seg:subscription>/reset": "consume of subscription",
    "POST TOPIC/subscriptions/<seg:subscription>/undo": "consume of subscription",
    "POST TOPIC/subscriptions/<seg:subscription>/delete": "consume of subscription",
    "POST TOPIC/subscriptions/<seg:subscription>/disconnect": "consume of subscription",
    "GET TOPIC/subscriptions/<seg:subscription>/age-target": "consume of subscription",
    "PUT TOPIC/subscriptions/<seg:subscription>/age-target": "consume of subscription",
    "GET TOPIC/subscriptions/<seg:subscription>/holders": "consume of subscription",
    "POST TOPIC/subscriptions/<seg:subscription>/acknowledge": "consume of subscription",
    "GET TOPIC/messages/<seg:message>/holders": "consume of topic",
    "GET definitions": "authenticated",
    "POST definitions/diff": "authenticated",
    "POST definitions/apply": "authenticated",
    "GET TOPIC/changes": "consume of topic",
    "GET TOPIC/schemas": "lookup of topic",
    "POST TOPIC/schemas": "produce of topic",
    "DELETE TOPIC/schemas": "tenant admin of topic",
    "POST TOPIC/schemas/verdict": "tenant admin of topic",
    "POST TOPIC/schemas/rehearsal": "consume of topic",
    "GET TOPIC/held-space": "lookup of topic",
    "GET NAMESPACE/held-space": "tenant admin of namespace",
    "GET TOPIC/tiers": "lookup of topic",
    "POST TOPIC/offload": "tenant admin of topic",
    "POST tiered-storage/orphans": "superuser",
    "GET TOPIC/messages": "consume of topic",
    "GET TOPIC/dead-letters": "consume of topic",
    "POST TOPIC/copies": "consume of topic",
    "GET dead-letters": "authenticated",
    **dict.fromkeys(("GET copies", "GET copies/<seg:copy_id>"), "authenticated"),
    **dict.fromkeys(
        (f"POST copies/<seg:copy_id>/{verb}" for verb in ("stop", "resume", "undo")),
        "authenticated",
    ),
    "POST TOPIC/messages": "produce of topic",
    "GET TOPIC/messages/export": "consume of topic",
    "GET TOPIC/messages/<seg:message>": "consume of topic",
    "GET TOPIC/messages/<seg:message>/value": "consume of topic",
    "GET TOPIC/schemas/<seg:version>": "lookup of topic",
    "GET brokers": "superuser",
    "GET bundles": "authenticated",
    "GET geo": "authenticated",
    "GET clusters/<seg:cluster>/geo": "superuser",
    "GET geo/links/<seg:remote>": "authenticated",
    "GET bookies": "superuser",
    "GET connections": "superuser",
    "GET connections/<seg:broker>/<seg:connection>": "superuser",
    "POST connections/<seg:broker>/<seg:connection>/disconnect": "superuser",
    "GET transactions": "superuser",
    "POST transactions/<seg:coordinator>/<seg:number>/abort": "superuser",
    "GET functions": "authenticated",
    "GET connectors": "authenticated",
    "GET FUNCTION": OF_COMPONENT,
    "GET FUNCTION/log": OF_COMPONENT,
    "GET FUNCTION/code": OF_COMPONENT,
    "POST FUNCTION/run": OF_COMPONENT,
    "POST FUNCTION/delete": OF_COMPONENT,
    "POST FUNCTION/deploy": OF_COMPONENT,
    "POST FUNCTION/try": OF_COMPONENT,
    "POST bundles/<seg:tenant>/<seg:namespace>/<seg:bundle>/unload": "superuser",
    "POST bundles/<seg:tenant>/<seg:namespace>/<seg:bundle>/split": "superuser",
    "POST bundles/<seg:tenant>/<seg:namespace>/<seg:bundle>/transfer": "superuser",
    "POST NAMESPACE/unload": "superuser",
    "POST brokers/<seg:broker>/unload": "superuser",
    "POST brokers/<seg:broker>/drain": "superuser",
    "POST brokers/<seg:broker>/drain/end": "superuser",
    "GET repair": "superuser",
    "POST repair/switch": "superuser",
    "POST repair/delay": "superuser",
    "POST repair/audit": "superuser",
    "GET bookies/<seg:bookie>/blast-radius": "superuser",
    "POST bookies/<seg:bookie>/decommission": "superuser",
    "POST bookies/<seg:bookie>/decommission/withdraw": "superuser",
    "GET settings": "superuser",
    "POST settings/<seg:setting>": "superuser",
    "POST bookies/<seg:bookie>/rack": "superuser",
    "GET tenants": "authenticated",
    "POST tenants": "superuser",
    "PUT tenants/<seg:tenant>": "tenant admin of tenant",
    "DELETE tenants/<seg:tenant>": "tenant admin of tenant",
    "GET tenants/<seg:tenant>/namespaces": "tenant admin of tenant",
    "POST tenants/<seg:tenant>/namespaces": "tenant admin of tenant",
    "GET NAMESPACE": "tenant admin of namespace",
    "DELETE NAMESPACE": "tenant admin of namespace",
    "PUT NAMESPACE/properties": "tenant admin of namespace",
    "POST NAMESPACE/policies/<seg:policy>": "tenant admin of namespace, superuser of cluster",
    "GET TOPIC/policies": "tenant admin of topic",
    "POST TOPIC/policies/<seg:policy>": "tenant admin of topic",
    "GET access": ADMIN_OF_PLACE,
    "GET grants": ADMIN_OF_PLACE,
    "POST grants": ADMIN_OF_PLACE,
    "GET roles": "authenticated",
    "GET roles/<seg:role>": "authenticated",
    "GET may": "authenticated",
    "GET payload-rules": "superuser",
    "PUT payload-rules": "superuser",
    "GET tokens": "superuser",
    "POST tokens": "superuser",
    "DELETE tokens/<number:token_id>": "superuser",
    "GET session/tokens": "authenticated",
    "POST session/tokens": "authenticated",
    "DELETE session/tokens/<number:token_id>": "authenticated",
    "GET audit": "superuser",
    "GET audit/<number:entry_id>": "superuser",
    "GET audit/verify": "superuser",
    "GET audit.csv": "superuser",
    "GET marks": SEE_PLACE,
    "GET views": "authenticated",
    "POST views": "authenticated",
    "PUT views/<number:view_id>": "authenticated",
    "DELETE views/<number:view_id>": "authenticated",
    "GET analyses": "authenticated",
    "GET changes": "authenticated",
    "POST changes": "authenticated",
    "GET changes/<str:set_id>": "authenticated",
    "GET changes/<str:set_id>/items": "authenticated",
    "POST changes/<str:set_id>/confirm": "authenticated",
    "POST changes/<str:set_id>/stop": "authenticated",
    "POST changes/<str:set_id>/retry": "authenticated",
    "GET runs": "authenticated",
    "POST runs": MESSAGES,
    "GET runs/<str:run_id>": "authenticated",
    "POST runs/<str:run_id>/cancel": "authenticated",
    "PUT runs/<str:run_id>/pin": "authenticated",
    "DELETE runs/<str:run_id>/pin": "authenticated",
    "GET runs/<str:run_id>/compare/<str:other>": "authenticated",
    "GET runs/<str:run_id>/log": "superuser",
    "GET runs/<str:run_id>/script": "authenticated",
    "POST analyses/<str:analysis>/estimate": MESSAGES,
    "GET schedules": "authenticated",
    "POST schedules": MESSAGES,
    "DELETE schedules/<str:schedule_id>": "authenticated",
    "GET runs/<str:run_id>/downloads/<str:name>": "authenticated",
}
"""The calls of the console, without the part of the path that names the cluster. ``TOPIC`` and ``NAMESPACE`` stand
for their paths."""
CHANNELS_TABLE = {
    "overview": "authenticated",
    "topics": "authenticated",
    "subscriptions": "authenticated",
    "topic": "lookup of topic",
    "schemas": "lookup of topic",
    "connections": "superuser",
    "functions": "authenticated",
    "geo": "superuser",
    "link": "authenticated",
    "run": MESSAGES,
}
ENDPOINTS = {
    "producer": "produce of topic",
    "consumer": "consume of subscription, lookup of namespace, consume of namespace, produce of topic",
    "reader": "consume of topic",
}


def shown(rights: Iterable[Right[Any]]) -> str:
    return ", ".join(
        right.action.value + (f" of {WORDS[right.kind]}" if right.kind else "") for right in rights
    )


def named(pattern: str) -> str:
    """Return the pattern of a path as the table names it."""
    path = pattern.removeprefix("/api/v1/")
    path = path if path in WITH_AND_WITHOUT else path.replace(CLUSTER, "")
    path = path.replace(FUNCTION, "FUNCTION")
    return path.replace(TOPIC, "TOPIC").replace(NAMESPACE, "NAMESPACE")


def test_each_call_of_the_console_has_its_right() -> None:
    from admin_ui.urls import api_patterns

    stated = {}
    for item in api_patterns:
        view = getattr(item.callback, "view_class", None)
        path = named(str(item.pattern))
        for method, rights in (declared_rights(view) if view else {}).items():
            stated[f"{method} {path}"] = shown(rights)
    assert stated == CALLS


def test_each_channel_of_the_live_feed_has_its_right() -> None:
    stated = {name: shown(all_of(channel.rights)) for name, channel in CHANNELS.items()}
    assert stated == CHANNELS_TABLE


def test_each_websocket_endpoint_has_its_right() -> None:
    assert {kind: shown(rights) for kind, rights in RIGHTS.items()} == ENDPOINTS
    assert set(KINDS) == RIGHTS.keys()
