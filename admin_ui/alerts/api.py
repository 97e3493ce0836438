"""REST of alerts.

Without ``tenant`` in the query a call is about all of the cluster, for superusers; with it, about the rows of that
tenant, for its administrators: their rules have a scope within it.
"""

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

from django.conf import settings
from django.db.models import Q
from django.http import HttpRequest, HttpResponse

from admin_ui.alerts import rows, shapes
from admin_ui.calls import (
    WINDOW,
    Call,
    ClusterView,
    Parameter,
    actor_of,
    checked,
    in_thread,
    query,
)
from admin_ui.lists.record_order import with_values
from admin_ui.params import Params, choice, window
from engine.auth.actions import Action
from engine.auth.resource_names import CLUSTER, TenantName, WholeCluster
from engine.auth.rights import Right
from engine.base.errors import NotReady
from engine.metadata import account
from engine.tenancy.tenants import tenant_name
from gateway.alerts import services
from gateway.alerts.definitions import SEVERITIES, Definition
from gateway.alerts.evaluator import Evaluator
from gateway.alerts.exports import dashboard, prometheus_rules
from gateway.alerts.models import (
    AlertChannel,
    AlertFiring,
    AlertLease,
    AlertRule,
    AlertSilence,
    FiringState,
)
from gateway.alerts.preview import preview
from gateway.alerts.services import Owned
from gateway.http.bodies import json_answer, no_content
from gateway.http.view import CHANGING_METHODS, RestView
from gateway.services.clock import now_ms

TENANT = Parameter("tenant", "whose rows; without it all of the cluster, for superusers")
Q_RULES = Parameter("q", "part of the name, in any case")
FIRING_STATES = ("open", "ended")
ROW = Parameter("row_id", kind=int, place="path")
OF_ROW = (ROW, TENANT)


def _tenant_of(view: RestView) -> tuple[TenantName, ...]:
    """Return the tenant of the query, if it names one. Raises PreconditionFailed."""
    tenant = query(view.request).get("tenant")
    return (TenantName(tenant_name(tenant)),) if tenant else ()


def _cluster_of(view: RestView) -> tuple[WholeCluster, ...]:
    """Return the cluster if the query names no tenant."""
    return () if query(view.request).get("tenant") else (CLUSTER,)


class AlertsView(ClusterView):
    """Base of the views."""

    read_rights = write_rights = (
        Right(Action.TENANT_ADMIN, TenantName, _tenant_of),
        Right(Action.SUPERUSER, WholeCluster, _cluster_of),
    )

    @property
    def owned(self) -> Owned:
        return Owned(self.cluster.name, query(self.request).get("tenant", ""))

    def changed(self, where: str, before: Any, after: Any) -> None:
        """Record a change for the audit log, and have it evaluated at once where this gateway evaluates."""
        recorded = account.current()
        if recorded is not None:
            recorded.add(where, before, after)
        self.cluster.part(Evaluator).wake()


class RulesView(AlertsView):
    """The rules."""

    calls: ClassVar[dict[str, Call]] = {
        "get": Call(
            "listAlertRules",
            shapes.RulesAnswer,
            (TENANT, Q_RULES, rows.RULE_ORDER.parameter, *WINDOW),
            errors=(400, 403, 412),
        ),
        "post": Call(
            "createAlertRule",
            shapes.RuleRow,
            (TENANT,),
            body=shapes.RuleBody,
            success=201,
            errors=(400, 403, 409, 412),
        ),
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await in_thread(_rules)(self.owned, query(request)))

    async def post(self, request: HttpRequest) -> HttpResponse:
        body = checked(shapes.RuleBody, request)
        rule = await in_thread(services.save_rule)(self.owned, body, actor_of(request))
        self.changed(f"alert rule {rule.name}", None, rows.rule_document(rule))
        (row,) = await in_thread(rows.rule_rows)([rule])
        return json_answer(row, status=201)


def _rules(owned: Owned, params: Params) -> dict[str, Any]:
    (offset, limit), sort = window(params), rows.RULE_ORDER.sort_of(params)
    rules = owned.of(AlertRule)
    if q := params.get("q"):
        rules = rules.filter(name__icontains=q)
    lease = AlertLease.objects.filter(cluster=owned.cluster).first()
    evaluated_at = lease.evaluated_at if lease is not None else None
    return {
        "total": rules.count(),
        "offset": offset,
        "limit": limit,
        "rows": rows.rule_rows(rows.RULE_ORDER.window(rules, sort, offset, limit)),
        "evaluated_at": evaluated_at or None,
    }


class RuleView(AlertsView):
    """A rule."""

    calls: ClassVar[dict[str, Call]] = {
        "put": Call(
            "changeAlertRule",
            shapes.RuleRow,
            OF_ROW,
            body=shapes.RuleBody,
            errors=(400, 403, 404, 409, 412),
        ),
        "delete": Call("deleteAlertRule", None, OF_ROW, success=204, errors=(403, 404, 412)),
    }

    async def put(self, request: HttpRequest, row_id: int) -> HttpResponse:
        body = checked(shapes.RuleBody, request)
        rule = await in_thread(self.owned.get)(AlertRule, row_id)
        before = rows.rule_document(rule)
        rule = await in_thread(services.save_rule)(self.owned, body, actor_of(request), rule)
        self.changed(f"alert rule {rule.name}", before, rows.rule_document(rule))
        (row,) = await in_thread(rows.rule_rows)([rule])
        return json_answer(row)

    async def delete(self, request: HttpRequest, row_id: int) -> HttpResponse:
        rule = await in_thread(self.owned.get)(AlertRule, row_id)
        await rule.adelete()
        self.changed(f"alert rule {rule.name}", rows.rule_document(rule), None)
        return no_content()


class PreviewView(AlertsView):
    """The effect that a rule would have."""

    reading_methods = frozenset({"POST"})
    calls: ClassVar[dict[str, Call]] = {
        "post": Call(
            "previewAlertRule",
            shapes.PreviewAnswer,
            (TENANT,),
            body=shapes.PreviewBody,
            errors=(400, 403, 412),
        )
    }

    async def post(self, request: HttpRequest) -> HttpResponse:
        body = checked(shapes.PreviewBody, request)
        rule = Definition.checked(body["definition"], self.owned.tenant)
        cluster = self.cluster

        async def work() -> dict[str, Any]:
            await cluster.collector.snapshot()
            seen = cluster.part(Evaluator).observed()
            if seen is None:
                raise NotReady("No numbers yet; try again in a second")
            return (await preview(rule, body["for_s"], seen, cluster.history))._asdict()

        answer = await cluster.link.on_loop(work)
        return json_answer({**answer, "words": rule.words})


class ChannelsView(AlertsView):
    """The channels."""

    calls: ClassVar[dict[str, Call]] = {
        "get": Call("listAlertChannels", shapes.ChannelsAnswer, (TENANT,), errors=(403, 412)),
        "post": Call(
            "createAlertChannel",
            shapes.ChannelRow,
            (TENANT,),
            body=shapes.ChannelBody,
            success=201,
            errors=(400, 403, 409, 412),
        ),
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        listed = await in_thread(_all(rows.channel_rows, AlertChannel))(self.owned)
        return json_answer({"rows": listed, "mail": bool(settings.ALERTS.smtp_host)})

    async def post(self, request: HttpRequest) -> HttpResponse:
        body = checked(shapes.ChannelBody, request)
        channel = await in_thread(services.save_channel)(self.owned, body, actor_of(request))
        self.changed(f"alert channel {channel.name}", None, rows.channel_document(channel))
        (row,) = await in_thread(rows.channel_rows)([channel])
        return json_answer(row, status=201)


class ChannelView(AlertsView):
    """A channel."""

    calls: ClassVar[dict[str, Call]] = {
        "put": Call(
            "changeAlertChannel",
            shapes.ChannelRow,
            OF_ROW,
            body=shapes.ChannelBody,
            errors=(400, 403, 404, 409, 412),
        ),
        "delete": Call("deleteAlertChannel", None, OF_ROW, success=204, errors=(403, 404, 412)),
    }

    async def put(self, request: HttpRequest, row_id: int) -> HttpResponse:
        body = checked(shapes.ChannelBody, request)
        channel = await in_thread(self.owned.get)(AlertChannel, row_id)
        before = rows.channel_document(channel)
        actor = actor_of(request)
        channel = await in_thread(services.save_channel)(self.owned, body, actor, channel)
        self.changed(f"alert channel {channel.name}", before, rows.channel_document(channel))
        (row,) = await in_thread(rows.channel_rows)([channel])
        return json_answer(row)

    async def delete(self, request: HttpRequest, row_id: int) -> HttpResponse:
        channel = await in_thread(self.owned.get)(AlertChannel, row_id)
        await channel.adelete()
        self.changed(f"alert channel {channel.name}", rows.channel_document(channel), None)
        return no_content()


class ChannelTestView(AlertsView):
    """A real notification to a channel, with its result."""

    calls: ClassVar[dict[str, Call]] = {
        "post": Call("testAlertChannel", shapes.TestAnswer, OF_ROW, errors=(403, 404, 409, 412))
    }

    async def post(self, request: HttpRequest, row_id: int) -> HttpResponse:
        channel = await in_thread(self.owned.get)(AlertChannel, row_id)
        # Shielded: its thread works on when the caller is gone, and then releases its place.
        error = await asyncio.shield(asyncio.wrap_future(services.begin_test(channel)))
        return json_answer({"accepted": not error, "error": error})


class FiringsView(AlertsView):
    """The firings."""

    calls: ClassVar[dict[str, Call]] = {
        "get": Call(
            "listAlertFirings",
            shapes.FiringsAnswer,
            (
                TENANT,
                Parameter("q", "part of title or rule, in any case"),
                Parameter("state", enum=FIRING_STATES),
                Parameter("severity", enum=SEVERITIES),
                rows.FIRING_ORDER.parameter,
                *WINDOW,
            ),
            errors=(400, 403, 412),
        )
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await in_thread(_firings)(self.owned, query(request)))


def _firings(owned: Owned, params: Params) -> dict[str, Any]:
    (offset, limit), sort = window(params), rows.FIRING_ORDER.sort_of(params)
    state, firings = choice(params, "state", FIRING_STATES), owned.of(AlertFiring)
    if state == "ended":
        firings = firings.filter(state=FiringState.ENDED)
    elif state == "open":
        firings = firings.filter(state__in=(FiringState.PENDING, FiringState.FIRING))
    firings = with_values(firings, params, {"severity": SEVERITIES})
    if q := params.get("q"):
        firings = firings.filter(Q(title__icontains=q) | Q(rule_name__icontains=q))
    listed = rows.firing_rows(rows.FIRING_ORDER.window(firings, sort, offset, limit))
    return {"total": firings.count(), "offset": offset, "limit": limit, "rows": listed}


class AcknowledgementView(AlertsView):
    """The acknowledgement of a firing, which ends its escalation."""

    for_operators = CHANGING_METHODS
    calls: ClassVar[dict[str, Call]] = {
        "post": Call(
            "acknowledgeAlert",
            shapes.FiringRow,
            OF_ROW,
            body=shapes.AcknowledgeBody,
            errors=(400, 403, 404, 409, 412),
        )
    }

    async def post(self, request: HttpRequest, row_id: int) -> HttpResponse:
        note = checked(shapes.AcknowledgeBody, request)["note"]
        actor = actor_of(request)
        firing = await in_thread(services.acknowledge)(self.owned, row_id, note, actor)
        self.changed(f"alert {firing.rule_name}", None, {"firing": firing.title, "note": note})
        (row,) = await in_thread(rows.firing_rows)([firing])
        return json_answer(row)


class SilencesView(AlertsView):
    """The silences that apply now, the newest first."""

    for_operators = CHANGING_METHODS
    calls: ClassVar[dict[str, Call]] = {
        "get": Call("listAlertSilences", shapes.SilencesAnswer, (TENANT,), errors=(403, 412)),
        "post": Call(
            "silenceAlerts",
            shapes.SilenceRow,
            (TENANT,),
            body=shapes.SilenceBody,
            success=201,
            errors=(400, 403, 404, 409, 412),
        ),
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        present = await in_thread(_silences)(self.owned)
        return json_answer({"rows": present})

    async def post(self, request: HttpRequest) -> HttpResponse:
        body = checked(shapes.SilenceBody, request)
        silence = await in_thread(services.make_silence)(self.owned, body, actor_of(request))
        (row,) = await in_thread(rows.silence_rows)([silence])
        self.changed("alert silence", None, row)
        return json_answer(row, status=201)


def _silences(owned: Owned) -> list[dict[str, Any]]:
    return rows.silence_rows(owned.of(AlertSilence).filter(until__gt=now_ms()))


class SilenceView(AlertsView):
    """A silence, which is ended early."""

    for_operators = CHANGING_METHODS
    calls: ClassVar[dict[str, Call]] = {
        "delete": Call("endAlertSilence", None, OF_ROW, success=204, errors=(403, 404, 412))
    }

    async def delete(self, request: HttpRequest, row_id: int) -> HttpResponse:
        silence = await in_thread(self.owned.get)(AlertSilence, row_id)
        (row,) = await in_thread(rows.silence_rows)([silence])
        await AlertSilence.objects.filter(pk=silence.pk).aupdate(until=now_ms())
        self.changed("alert silence", row, None)
        return no_content()


class PrometheusRulesView(AlertsView):
    """The rules as a rule file for Prometheus."""

    calls: ClassVar[dict[str, Call]] = {
        "get": Call("getPrometheusRules", None, (TENANT,), errors=(403, 412), file="text/yaml")
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        rules = await in_thread(_enabled)(self.owned)
        return HttpResponse(
            prometheus_rules(rules, self.cluster.name),
            content_type="text/yaml; charset=utf-8",
            headers={"Content-Disposition": 'attachment; filename="magnetar-alerts.yml"'},
        )


class DashboardView(AlertsView):
    """A Grafana dashboard of the figures that rules compare."""

    calls: ClassVar[dict[str, Call]] = {
        "get": Call(
            "getAlertDashboard", None, (TENANT,), errors=(403, 412), file="application/json"
        )
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        rules = await in_thread(_enabled)(self.owned)
        answer = json_answer(dashboard(rules, self.cluster.name))
        answer["Content-Disposition"] = 'attachment; filename="magnetar-alerts.json"'
        return answer


def _enabled(owned: Owned) -> list[AlertRule]:
    return list(owned.of(AlertRule).filter(enabled=True))


def _all(
    make: Callable[[list[Any]], list[dict[str, Any]]], model: type[Any]
) -> Callable[[Owned], list[dict[str, Any]]]:
    return lambda owned: make(list(owned.of(model)))
