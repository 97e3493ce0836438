"""The OpenAPI document of the console API. The module is loaded only when the document is requested, so that the views
do not import the generator."""

import json
from functools import cache
from threading import Lock
from typing import Any

from django.conf import settings
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.settings import patched_settings
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiParameter,
    PolymorphicProxySerializer,
    extend_schema,
    extend_schema_view,
)

from admin_ui.access.shapes import ACTION_WORDS
from admin_ui.calls import CLUSTER, Call, ClusterView, Parameter
from admin_ui.changes.change_kinds import KINDS as CHANGE_KINDS
from admin_ui.copies.shapes import STOPPED as COPY_STOPPED
from admin_ui.messages.shapes import STOPPED as SCAN_STOPPED
from admin_ui.models import ChangeState, ItemState
from admin_ui.policies.shapes import LEVELS
from admin_ui.resources import RESOURCES
from admin_ui.rights import KINDS
from admin_ui.shapes import BROKER_STATES, PROBLEM_CAUSES, Reason
from admin_ui.subscriptions.shapes import ACTIONS, HOLDING_STATES
from admin_ui.tokens.shapes import TOKEN_KINDS
from admin_ui.topics.shapes import CHANGES
from engine.admin.lag import LagCause
from engine.schema.kinds import SchemaKind
from gateway import sign_in
from gateway.alerts.definitions import SEVERITIES, RuleKind
from gateway.alerts.models import ChannelKind, DeliveryKind
from gateway.jobs.rights import TargetKind
from gateway.services.browsing.opening import Kind as MessageKind

_GENERATING = Lock()


def _parameter(parameter: Parameter) -> OpenApiParameter:
    return OpenApiParameter(
        parameter.name,
        parameter.kind,
        parameter.place,
        description=parameter.description,
        enum=parameter.enum,
        default=parameter.default,
    )


def _described(call: Call, *, of_cluster: bool) -> Any:
    answer: Any = call.answer
    if isinstance(answer, tuple):
        name = f"{call.operation[0].upper()}{call.operation[1:]}Answer"
        answer = PolymorphicProxySerializer(name, list(answer), None)
    responses: dict[Any, Any] = {call.success: answer}
    if call.file:
        # A document is read as what it holds, and not as its bytes.
        is_document = call.file.endswith(("json", "yaml"))
        kind = OpenApiTypes.ANY if is_document else OpenApiTypes.BINARY
        responses = {(call.success, call.file): kind}
        if answer is not None:
            responses[call.success, "application/json"] = answer
    errors = {*call.errors, 503, *((404,) if of_cluster else ())}
    parameters = (CLUSTER, *call.parameters) if of_cluster else call.parameters
    return extend_schema(
        operation_id=call.operation,
        parameters=[_parameter(parameter) for parameter in parameters],
        request=call.body,
        responses={
            **responses,
            **dict.fromkeys(sorted(errors), Reason),
            **(dict.fromkeys((409, 503), call.refusals) if call.refusals else {}),
        },
    )


@cache
def describe() -> None:
    """Attach the descriptions to the views, once."""
    for resource in RESOURCES:
        for view in resource.routes.values():
            of_cluster = issubclass(view, ClusterView)
            methods = {
                method: _described(call, of_cluster=of_cluster)
                for method, call in view.calls.items()
            }
            extend_schema_view(**methods)(view)


def console_endpoints_only(
    endpoints: list[tuple[str, str, str, Any]],
) -> list[tuple[str, str, str, Any]]:
    """Return the endpoints of the console: drf-spectacular's hook. The admin REST is Pulsar's and documented there."""
    describe()
    return [item for item in endpoints if item[0].startswith("/api/v1/")]


SPECTACULAR = {
    "TITLE": "Magnetar console API",
    "DESCRIPTION": "What the console uses. Times are integer milliseconds since the epoch, rates are per second,"
    " 64-bit ids are strings.",
    "VERSION": settings.VERSION,
    "COMPONENT_SPLIT_REQUEST": True,
    "SCHEMA_PATH_PREFIX": r"/api/v1(/clusters/\{cluster\})?",
    "ENUM_NAME_OVERRIDES": {
        "PlaceKindEnum": tuple(KINDS.values()),
        "RightActionEnum": ACTION_WORDS,
        "TokenKindEnum": TOKEN_KINDS,
        "SchemaKindEnum": [kind.value for kind in SchemaKind],
        "TargetKindEnum": [kind.value for kind in TargetKind],
        "ScanStoppedEnum": SCAN_STOPPED,
        "CopyScanStoppedEnum": COPY_STOPPED,
        "MessageKindEnum": [kind.value for kind in MessageKind],
        "CursorActionEnum": ACTIONS,
        "TopicChangeEnum": CHANGES,
        "LagCauseEnum": [cause.value for cause in LagCause],
        "ProblemCauseEnum": PROBLEM_CAUSES,
        "BrokerStateEnum": BROKER_STATES,
        "PolicyLevelEnum": LEVELS,
        "AlertChannelKindEnum": ChannelKind.values,
        "AlertDeliveryKindEnum": DeliveryKind.values,
        "AlertRuleKindEnum": [kind.value for kind in RuleKind],
        "AlertSeverityEnum": SEVERITIES,
        "ActingLevelEnum": sign_in.LEVELS,
        "HoldingStateEnum": HOLDING_STATES,
        "ChangeKindEnum": tuple(CHANGE_KINDS),
        "ChangeStateEnum": ChangeState.choices,
        "ChangeItemStateEnum": ItemState.choices,
    },
    "PREPROCESSING_HOOKS": ["admin_ui.openapi.console_endpoints_only"],
}


def document() -> dict[str, Any]:
    """Return the OpenAPI document as a dictionary."""
    with patched_settings(SPECTACULAR):
        generator = SchemaGenerator()  # type: ignore[no-untyped-call]
        schema: dict[str, Any] = generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
        return schema


def document_text() -> str:
    """Return the document as JSON text, ordered and indented so that a change shows as a small difference.

    The first call generates it, and calls from other threads wait: the generator's settings are those of the process.
    """
    with _GENERATING:
        return _text()


@cache
def _text() -> str:
    return json.dumps(document(), indent=2, ensure_ascii=False, default=str) + "\n"
