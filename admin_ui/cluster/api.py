"""REST of brokers, bundles and bookies."""

from typing import ClassVar

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import (
    WINDOW,
    Call,
    ClusterView,
    Parameter,
    PreviewedView,
    Shape,
    actor_of,
    checked,
    query,
)
from admin_ui.cluster import drains, selectors, services, shapes, unloading
from admin_ui.cluster.services import BundleChange
from admin_ui.cluster.unloading import Scope
from engine.auth.rights import AUTHENTICATED, SUPERUSER
from engine.base.errors import InvalidField, InvalidNameError
from engine.base.names import BundleName, NamespaceName
from engine.tenancy.namespaces import namespace_name
from gateway.http.bodies import json_answer

BUNDLE_PATH = (
    Parameter("tenant", place="path"),
    Parameter("namespace", place="path"),
    Parameter("bundle", "range of hashes, as 0x00000000_0x40000000", place="path"),
)


class AddressesView(ClusterView):
    """The addresses that brokers advertise to clients, each checked by a connection from this gateway."""

    read_rights = AUTHENTICATED
    calls = {"get": Call("listAddresses", shapes.AddressesAnswer)}

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(
            await self.work(lambda engine: selectors.addresses(self.cluster, engine))
        )


class BrokersView(ClusterView):
    """Brokers with their numbers and bundles."""

    read_rights = SUPERUSER
    calls = {"get": Call("listBrokers", shapes.BrokersAnswer)}

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(
            await self.work(lambda engine: selectors.brokers(self.viewer, self.cluster, engine))
        )


class LoadBalanceView(ClusterView):
    """The last plan of load balance, with the reasons for which bundles were moved or left."""

    read_rights = SUPERUSER
    calls = {"get": Call("getLoadBalance", shapes.LoadBalance)}

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(
            await self.work(lambda engine: selectors.load_balance(self.viewer, engine))
        )


class BundlesView(ClusterView):
    """A window of the bundles of the namespaces that are seen."""

    read_rights = AUTHENTICATED
    calls = {
        "get": Call(
            "listBundles",
            shapes.BundlesAnswer,
            parameters=(
                Parameter("q", "words that tenant/namespace/range has, in any case and order"),
                Parameter("broker", "id of its owner; exact"),
                Parameter("sort", "a field of the rows, '-' in front for descending"),
                *WINDOW,
            ),
            errors=(400,),
        )
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        params = query(request)
        return json_answer(
            await self.work(
                lambda engine: selectors.listed(self.viewer, self.cluster, engine, params)
            )
        )


class BookiesView(ClusterView):
    """Bookies, their disks and racks."""

    read_rights = SUPERUSER
    calls = {"get": Call("listBookies", shapes.BookiesAnswer)}

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(
            await self.work(lambda engine: selectors.bookies(self.viewer, self.cluster, engine))
        )


def _changes(operation: str, body: Shape) -> dict[str, Call]:
    return {
        "post": Call(
            operation,
            (shapes.BundlePreview, shapes.BundleReceipt),
            BUNDLE_PATH,
            body=body,
            errors=(400, 403, 404, 409, 412),
        )
    }


class BundleChangeView(PreviewedView):
    """Change a bundle. A request is first a ``preview`` of the change, then makes exactly that change by its
    ``token``."""

    write_rights = SUPERUSER
    change: ClassVar[BundleChange]
    body_shape: ClassVar[Shape] = shapes.BundleChangeBody

    async def post(
        self, request: HttpRequest, tenant: str, namespace: str, bundle: str
    ) -> HttpResponse:
        body = checked(self.body_shape, request)
        name, user, change = _bundle(tenant, namespace, bundle), actor_of(request), self.change
        options = {key: body[key] for key in ("algorithm", "unload") if key in body}
        return await self.previewed(
            body,
            lambda engine: services.preview(self.cluster, engine, name, change, user, **options),
            lambda engine, token: services.apply(self.cluster, engine, name, change, user, token),
        )


class UnloadBundleView(BundleChangeView):
    for_operators = frozenset({"POST"})
    change = "unload"
    calls = _changes("unloadBundle", shapes.BundleChangeBody)


class SplitBundleView(BundleChangeView):
    change = "split"
    body_shape = shapes.SplitBundleBody
    calls = _changes("splitBundle", shapes.SplitBundleBody)


class TransferBundleView(PreviewedView):
    """Move a bundle to a named broker, previewed and confirmed."""

    write_rights = SUPERUSER
    for_operators = frozenset({"POST"})
    calls: ClassVar[dict[str, Call]] = {
        "post": Call(
            "transferBundle",
            (shapes.TransferPreview, shapes.TransferReceipt),
            BUNDLE_PATH,
            body=shapes.TransferBundleBody,
            errors=(400, 403, 404, 409, 412),
        )
    }

    async def post(
        self, request: HttpRequest, tenant: str, namespace: str, bundle: str
    ) -> HttpResponse:
        body = checked(shapes.TransferBundleBody, request)
        name, user = _bundle(tenant, namespace, bundle), actor_of(request)
        destination = body["destination"]
        if body["preview"] and not destination:
            raise InvalidField("destination", "is required: the id of a broker")
        return await self.previewed(
            body,
            lambda engine: services.preview_transfer(self.cluster, engine, name, destination, user),
            lambda engine, token: services.transfer(self.cluster, engine, name, user, token),
        )


_BROKER = Parameter("broker", "its id, as in listBrokers", place="path")


class BundlesOfManyView(PreviewedView):
    """A change for many bundles, previewed and confirmed together."""

    write_rights = SUPERUSER
    for_operators = frozenset({"POST"})


def _unloads(operation: str, *path: Parameter) -> dict[str, Call]:
    receipts = (shapes.UnloadPreview, shapes.UnloadReceipt)
    errors = (400, 403, 404, 409, 412, 422)
    return {"post": Call(operation, receipts, path, body=shapes.BundleChangeBody, errors=errors)}


class UnloadManyView(BundlesOfManyView):
    """Unload many bundles."""

    async def unload(self, request: HttpRequest, scope: Scope) -> HttpResponse:
        """Answer a preview or an application for the bundles of ``scope``."""
        user = actor_of(request)
        return await self.previewed(
            checked(shapes.BundleChangeBody, request),
            lambda engine: unloading.preview(self.cluster, engine, scope, user),
            lambda engine, token: unloading.apply(self.cluster, engine, scope, user, token),
        )


class UnloadNamespaceView(UnloadManyView):
    """Unload all bundles of a namespace."""

    calls = _unloads(
        "unloadNamespace",
        Parameter("tenant", place="path"),
        Parameter("namespace", "without the tenant", place="path"),
    )

    async def post(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        return await self.unload(request, Scope(namespace=namespace_name(tenant, namespace)))


class UnloadBrokerView(UnloadManyView):
    """Unload all bundles that a broker owns."""

    calls = _unloads("unloadBroker", _BROKER)

    async def post(self, request: HttpRequest, broker: str) -> HttpResponse:
        return await self.unload(request, Scope(broker=broker))


def _drains(operation: str, preview: Shape, receipt: Shape) -> dict[str, Call]:
    errors = (400, 403, 404, 409)
    path = (_BROKER,)
    return {"post": Call(operation, (preview, receipt), path, body=shapes.DrainBody, errors=errors)}


class DrainBrokerView(BundlesOfManyView):
    """Drain a broker: all its bundles move to other brokers, and it receives none until the drain ends. It goes on
    running, and a restart does not end the drain."""

    calls = _drains("drainBroker", shapes.DrainPreview, shapes.DrainReceipt)

    async def post(self, request: HttpRequest, broker: str) -> HttpResponse:
        user = actor_of(request)
        return await self.previewed(
            checked(shapes.DrainBody, request),
            lambda engine: drains.preview(self.cluster, engine, broker, user),
            lambda engine, token: drains.apply(self.cluster, engine, broker, user, token),
        )


class EndDrainView(BundlesOfManyView):
    """End the drain of a broker, which may receive bundles again. No bundle moves at once."""

    calls = _drains("endDrain", shapes.EndDrainPreview, shapes.EndDrainReceipt)

    async def post(self, request: HttpRequest, broker: str) -> HttpResponse:
        user = actor_of(request)
        return await self.previewed(
            checked(shapes.DrainBody, request),
            lambda engine: drains.preview_end(engine, broker, user),
            lambda engine, token: drains.end(engine, broker, user, token),
        )


def _bundle(tenant: str, namespace: str, bundle: str) -> BundleName:
    """Return the bundle of a path. Raises InvalidField for a wrong range, InvalidNameError for a wrong name."""
    parent = NamespaceName.parse(f"{tenant}/{namespace}")
    try:
        return BundleName.parse(parent, bundle)
    except InvalidNameError as error:
        raise InvalidField("bundle", "must be a range as 0x00000000_0x40000000") from error
