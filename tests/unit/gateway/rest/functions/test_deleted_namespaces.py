"""A namespace that is deleted: its packages go with it, and functions that need it keep it."""

from tests.support.admin.gateway_client import Gateway
from tests.support.functions.forms import FORM_TYPE, file_part, form, json_part, text_part
from tests.support.functions.functions_gateway import FunctionsWorld

NAMESPACE = "/admin/v2/namespaces/public/code"
PACKAGE = "/admin/v3/packages/{kind}/public/code/pk g/{version}"
CODE = b"def process(x):\n    return x\n"
CONFIG = {"className": "ex.Ex", "runtime": "PYTHON", "inputs": ["public/default/in"]}


def stored(call: Gateway, kind: str, version: str) -> int:
    body = form(json_part("metadata", {"description": ""}), file_part(CODE, name="file"))
    path = PACKAGE.format(kind=kind, version=version)
    return call("POST", path.replace(" ", "%20"), body, content_type=FORM_TYPE).status


def created(call: Gateway, place: str, url: str) -> int:
    body = form(json_part("functionConfig", CONFIG), text_part("url", url))
    return call("POST", f"/admin/v3/functions/{place}", body, content_type=FORM_TYPE).status


def test_its_packages_go_with_all_their_ledgers(call: Gateway, world: FunctionsWorld) -> None:
    assert call("PUT", NAMESPACE).status == 204
    for kind, version in (("function", "1"), ("function", "2"), ("sink", "1")):
        assert stored(call, kind, version) == 204
    assert world.ledgers.ledgers
    assert call("DELETE", NAMESPACE).status == 204
    assert not world.ledgers.ledgers
    assert call("PUT", NAMESPACE).status == 204
    assert call("GET", "/admin/v3/packages/function/public/code").json == []
    assert stored(call, "function", "1") == 204


def test_functions_of_it_or_with_its_packages_keep_it(call: Gateway, world: FunctionsWorld) -> None:
    assert call("PUT", NAMESPACE).status == 204
    assert stored(call, "function", "1") == 204
    for place in ("public/default/uses", "public/code/inside"):
        assert created(call, place, "function://public/code/pk g@1") == 204
    for place in ("public/default/uses", "public/code/inside"):
        refused = call("DELETE", NAMESPACE)
        assert (refused.status, place in refused.json["reason"]) == (409, True)
        assert call("DELETE", f"/admin/v3/functions/{place}").status == 204
    assert call("DELETE", NAMESPACE).status == 204


def test_without_workers_a_namespace_can_be_deleted(call: Gateway, world: FunctionsWorld) -> None:
    assert call("PUT", NAMESPACE).status == 204
    world.switch_off()
    assert call("DELETE", NAMESPACE).status == 204
