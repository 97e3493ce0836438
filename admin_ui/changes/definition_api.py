"""REST of definitions as a file: export, difference to the cluster, and application as a change set.

The caller needs the right to change each object: others are left out of an export, and refuse a file.
"""

import asyncio
import hashlib
import json
from functools import partial
from typing import TypeVar

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import Call, ClusterView, Parameter, actor_of, checked, in_thread, query
from admin_ui.changes import definition_files as files
from admin_ui.changes import definition_objects as objects
from admin_ui.changes import selectors, services, shapes
from admin_ui.changes.definition_files import Defined, Objects
from admin_ui.confirming import Json
from admin_ui.models import ChangeSet
from admin_ui.policies.selectors import exact
from engine.auth.identity import Identity
from engine.auth.rights import AUTHENTICATED
from engine.auth.viewer import Viewer
from engine.base.errors import Conflict, Forbidden, InvalidField, NotFound, Unprocessable
from engine.base.names import NamespaceName
from gateway.http.auth.access import authorize_needs
from gateway.http.bodies import json_answer
from gateway.jobs import background
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine, Work

MODULE = "admin_ui.changes.working"
T = TypeVar("T")
NOT_IN_FILE_MAX = 100
READ_S = 300.0
"""Time in which the objects of an export or a file are read: 10,000 of our own brokers take 75 s."""
MEDIA_TYPE = "application/yaml"
"""Media type of both formats: JSON is YAML, too."""


class _DefinitionsView(ClusterView):
    read_rights = write_rights = AUTHENTICATED
    work_timeout_s = READ_S

    async def work(self, work: Work[T]) -> T:
        """Return the result of ``work(engine)``. Raises Unprocessable when that takes too long: it would again."""
        try:
            return await super().work(work)
        except TimeoutError:
            raise Unprocessable(
                f"The objects were not all read within {self.work_timeout_s:g} s: name a tenant or a namespace,"
                " or divide the file"
            ) from None

    async def may(self, defined: Defined, wanted: Json) -> bool:
        """Return whether the caller may change an object."""
        try:
            await authorize_needs(
                defined.needs(wanted), Identity(self.principal or None), self.cluster
            )
        except Forbidden:
            return False
        return True

    async def objects_of(self, text: str) -> Objects:
        """Return the objects of a file. Raises InvalidField, and Forbidden when one is not for the caller."""
        given = await asyncio.to_thread(files.read, text)
        if len(given) > objects.OBJECTS_MAX:
            raise InvalidField("text", f"may define at most {objects.OBJECTS_MAX} objects")
        caller = Identity(self.principal or None)
        for defined, wanted in given.items():
            await authorize_needs(defined.needs(wanted), caller, self.cluster)
        return given


class DefinitionsView(_DefinitionsView):
    """Tenants, namespaces, policies, topics and subscriptions as a file, those that the caller may change."""

    calls = {
        "get": Call(
            "exportDefinitions",
            parameters=(
                Parameter("format", "default yaml", enum=files.FORMATS),
                Parameter("tenant", "only this tenant"),
                Parameter("namespace", "only this namespace, tenant/name"),
            ),
            errors=(400, 403, 404, 412, 422),
            file=MEDIA_TYPE,
        )
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        params = query(request)
        form = params.get("format") or "yaml"
        if form not in files.FORMATS:
            raise InvalidField("format", f"must be one of {', '.join(files.FORMATS)}")
        tenant, namespace = params.get("tenant", ""), params.get("namespace", "")
        if namespace:
            namespace = str(NamespaceName.parse(namespace))
        viewer = self.viewer
        is_seen = viewer.sees(namespace) if namespace else viewer.sees_tenant(tenant)
        if (namespace or tenant) and not is_seen:
            # Whether it exists or not: names of other tenants are not given away.
            raise Forbidden(f"{namespace or tenant} is not one that this role sees")

        async def export(engine: Engine) -> tuple[Objects, int]:
            listed = await objects.listed(engine, viewer, tenant, namespace)
            allowed = [defined for defined in listed if await self.may(defined, {})]
            exported = await objects.exported(engine, allowed)
            shown = {
                defined: members
                for defined, members in exported.items()
                if not defined.subscription or await self.may(defined, members)
            }
            return shown, len(listed) - len(allowed) + len(exported) - len(shown)

        exported, left_out = await self.work(export)
        text = await asyncio.to_thread(files.write, exported, form)
        answer = HttpResponse(text, content_type=f"{MEDIA_TYPE}; charset=utf-8")
        answer["Content-Disposition"] = f'attachment; filename="definitions.{form}"'
        answer["X-Definitions-Objects"] = str(len(exported))
        answer["X-Definitions-Left-Out"] = str(left_out)
        return answer


class DiffView(_DefinitionsView):
    """The difference of a file to the cluster. Nothing is changed."""

    calls = {
        "post": Call(
            "compareDefinitions",
            shapes.DefinitionsDiff,
            body=shapes.DefinitionsBody,
            errors=(400, 403, 413, 422),
        )
    }
    reading_methods = frozenset({"POST"})

    async def post(self, request: HttpRequest) -> HttpResponse:
        given = await self.objects_of(checked(shapes.DefinitionsBody, request)["text"])
        viewer = self.viewer

        async def compare(engine: Engine) -> Json:
            rows = _rows(await objects.differing(engine, given))
            others = await _not_in_file(engine, viewer, given)
            return {
                "at": now_ms(),
                "digest": _digest(rows),
                "objects": len(given),
                "differing": rows,
                "not_in_file": others[:NOT_IN_FILE_MAX],
                "not_in_file_total": len(others),
            }

        return json_answer(await self.work(compare))


class ApplyView(_DefinitionsView):
    """Create a change set of exactly the differences that were shown, which a worker then previews: nothing is changed
    before it is confirmed."""

    calls = {
        "post": Call(
            "applyDefinitions",
            shapes.ChangeSetDetail,
            body=shapes.ApplyDefinitionsBody,
            success=201,
            errors=(400, 403, 409, 422),
        )
    }

    async def post(self, request: HttpRequest) -> HttpResponse:
        body = checked(shapes.ApplyDefinitionsBody, request)
        given = await self.objects_of(body["text"])
        differing = await self.work(lambda engine: objects.differing(engine, given))
        if not differing:
            raise Unprocessable("The cluster is as the file has it: nothing is to be changed")
        if _digest(_rows(differing)) != body["digest"]:
            raise Conflict("The difference is not this one any more: compare the file again")
        create = partial(
            services.create,
            targets=[
                (defined.name, defined.subscription, {"wanted": given[defined]})
                for defined, _, _ in differing
            ],
            cluster=self.cluster.name,
            kind="definitions",
            arguments={},
            query=None,
            role=self.principal,
            created_by=actor_of(request),
            address=(request.META.get("REMOTE_ADDR") or "")[:64],
        )
        made: ChangeSet = await in_thread(create)()
        background.request(MODULE, made.id)
        return json_answer(await in_thread(selectors.detail)(made), status=201)


def _rows(differing: list[tuple[Defined, Json | None, list[Json]]]) -> list[Json]:
    return [
        {
            "kind": defined.kind,
            "name": defined.name,
            "subscription": defined.subscription,
            "exists": state is not None,
            "fields_changed": [
                {**field, "before": exact(field["before"]), "after": exact(field["after"])}
                for field in fields
            ],
        }
        for defined, state, fields in differing
    ]


def _digest(rows: list[Json]) -> str:
    if not rows:
        return ""
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


async def _not_in_file(engine: Engine, viewer: Viewer, given: Objects) -> list[str]:
    """Return the topics of the file's namespaces that it does not have."""
    names = {defined.name for defined in given}
    present: list[str] = []
    for namespace in sorted(name for name in names if Defined(name).kind == "namespace"):
        try:
            listed = await objects.listed(engine, viewer, "", namespace)
        except NotFound:
            continue
        present += [defined.name for defined in listed if defined.name not in names]
    return present
