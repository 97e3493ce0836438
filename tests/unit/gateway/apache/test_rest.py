"""Requests to Apache's REST interface: credentials, redirects and errors."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.base.errors import Conflict, Forbidden, NotFound, NotReady, PreconditionFailed
from engine.base.names import TopicName
from engine.net.network import LoopNetwork
from gateway.apache.rest import ApacheRest, reason_of, topic_path
from gateway.apache_settings import ApacheCluster
from tests.support.net.recorded_apache import RecordedApache

TENANTS = "/admin/v2/tenants"


@pytest.fixture
async def rest(apache_cluster: ApacheCluster) -> AsyncIterator[ApacheRest]:
    rest = ApacheRest(apache_cluster, LoopNetwork())
    yield rest
    rest.close()


async def test_the_token_is_read_from_its_file_for_each_request(
    rest: ApacheRest, apache_cluster: ApacheCluster
) -> None:
    assert "acme" in await rest.get(TENANTS)
    Path(apache_cluster.token_file).write_text("another")
    with pytest.raises(Forbidden, match="theirs refuses GET /admin/v2/tenants"):
        await rest.get(TENANTS)


async def test_a_missing_token_file_is_named_by_its_reason_alone(
    rest: ApacheRest, apache_cluster: ApacheCluster
) -> None:
    Path(apache_cluster.token_file).unlink()
    with pytest.raises(NotReady, match="The token file of theirs cannot be read: No such file"):
        await rest.get(TENANTS)


@pytest.mark.parametrize(
    ("status", "kind"), [(404, NotFound), (409, Conflict), (412, PreconditionFailed)]
)
async def test_a_refusal_has_the_reason_of_the_cluster(
    rest: ApacheRest, apache: RecordedApache, status: int, kind: type[Exception]
) -> None:
    apache.refusals[TENANTS] = status, "That is why"
    with pytest.raises(kind, match="That is why"):
        await rest.get(TENANTS)


async def test_a_redirect_to_a_registered_broker_is_followed(
    rest: ApacheRest, apache: RecordedApache
) -> None:
    apache.redirects["/admin/v2/moved"] = f"{apache.url}{TENANTS}"
    assert "acme" in await rest.get("/admin/v2/moved")


async def test_the_token_is_not_sent_to_another_host(
    rest: ApacheRest, apache: RecordedApache
) -> None:
    apache.redirects[TENANTS] = "http://localhost:1/admin/v2/tenants"
    with pytest.raises(NotReady, match="no registered broker: the token is not sent there"):
        await rest.get(TENANTS)


async def test_an_endless_redirect_is_an_error(rest: ApacheRest, apache: RecordedApache) -> None:
    apache.redirects[TENANTS] = f"{apache.url}{TENANTS}"
    with pytest.raises(NotReady, match="redirects GET /admin/v2/tenants without an end"):
        await rest.get(TENANTS)


async def test_a_cluster_that_does_not_answer_is_named() -> None:
    rest = ApacheRest(ApacheCluster("away", "http://127.0.0.1:1"), LoopNetwork())
    with pytest.raises(NotReady, match=r"away \(127.0.0.1:1\) does not answer"):
        await rest.get(TENANTS)


def test_names_are_segments_of_paths() -> None:
    topic = TopicName.parse("persistent://t/n/b c%")
    assert topic_path(topic, "subscription", "s/1") == (
        "/admin/v2/persistent/t/n/b%20c%25/subscription/s%2F1"
    )


def test_the_page_of_a_server_is_no_reason() -> None:
    assert reason_of(b"<html>Not here</html>") == ""
    assert reason_of(b'{"reason": "a\\n  b"}') == "a b"
