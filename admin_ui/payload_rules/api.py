"""REST of payload rules."""

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import Call, ConsoleView, checked, in_thread
from admin_ui.payload_rules import shapes
from engine.auth.rights import SUPERUSER
from engine.metadata import account
from gateway.access.models import PayloadRule
from gateway.access.payload_rules import PayloadRules, checked_rules, listed, replace_rules
from gateway.clusters.registry import clusters_for
from gateway.http.bodies import json_answer

WHERE = "payload rules"
"""Name of the rules in the audit log."""


class PayloadRulesView(ConsoleView):
    """The payload rules, which are replaced together. Other gateways follow within a second."""

    read_rights = write_rights = SUPERUSER
    for_viewer = False
    keeps_body = True
    calls = {
        "get": Call("getPayloadRules", shapes.PayloadRulesAnswer, errors=(403,)),
        "put": Call(
            "setPayloadRules",
            shapes.PayloadRulesAnswer,
            body=shapes.PayloadRulesBody,
            errors=(400, 403, 409, 412),
        ),
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer({"rows": listed([rule async for rule in PayloadRule.objects.all()])})

    async def put(self, request: HttpRequest) -> HttpResponse:
        body = checked(shapes.PayloadRulesBody, request)
        rules = checked_rules(body["rules"])
        before = await in_thread(replace_rules)(rules, body["expected"])
        clusters_for(request).part(PayloadRules).renew()
        recorded = account.current()
        if recorded is not None:
            recorded.add(WHERE, before, rules)
        return json_answer({"rows": rules})
