"""Answers that the client already has are not sent again; long ones are compressed for clients that accept it."""

import asyncio
import gzip
import json
import time

import pytest
from django.http import HttpRequest, HttpResponse

from gateway.http.bodies import json_answer, json_list
from gateway.http.conditional import conditional
from tests.unit.gateway.http.conftest import Client

LONG = [f"persistent://public/default/topic-{index}" for index in range(100_000)]


def request(method: str = "GET", **headers: str) -> HttpRequest:
    made = HttpRequest()
    made.method = method
    made.META = {f"HTTP_{name.upper()}": value for name, value in headers.items()}
    return made


async def answered(value: object = ("a",), **headers: str) -> HttpResponse:
    made = await conditional(request(**headers), json_answer(value))
    assert isinstance(made, HttpResponse)
    return made


async def test_the_tag_identifies_the_content() -> None:
    first, same, other = await answered(), await answered(), await answered(["b"])
    assert first.headers["ETag"] == same.headers["ETag"] != other.headers["ETag"]
    assert first.headers["ETag"].startswith('"')


@pytest.mark.parametrize("form", ["{}", "W/{}", '"x", {}', "*"])
async def test_a_client_with_the_tag_receives_304_without_a_body(form: str) -> None:
    tag = (await answered()).headers["ETag"]
    again = await answered(if_none_match=form.format(tag))
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["ETag"] == tag
    assert (await answered(["b"], if_none_match=tag)).status_code == 200


async def test_a_long_answer_is_compressed_when_accepted_and_has_its_own_tag() -> None:
    plain, packed = (
        await answered(LONG[:200]),
        await answered(LONG[:200], accept_encoding="br,gzip"),
    )
    assert gzip.decompress(packed.content) == plain.content
    assert packed.headers["Content-Encoding"] == "gzip"
    assert plain.headers["Vary"] == packed.headers["Vary"] == "Accept-Encoding"
    assert plain.headers["ETag"] != packed.headers["ETag"]
    known = packed.headers["ETag"]
    again = await answered(LONG[:200], accept_encoding="gzip", if_none_match=known)
    assert again.status_code == 304


@pytest.mark.parametrize("accepted", ["", "br", "gzip;q=0", "identity, gzip; q=0"])
async def test_an_answer_is_not_compressed_when_not_accepted(accepted: str) -> None:
    assert "Content-Encoding" not in (await answered(LONG[:200], accept_encoding=accepted)).headers


async def test_a_short_answer_is_not_compressed() -> None:
    assert "Content-Encoding" not in (await answered(accept_encoding="gzip")).headers


async def test_a_list_of_100_000_names_holds_no_other_request_for_long() -> None:
    gaps: list[float] = []

    async def others() -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            gaps.append(now - before)
            before = now

    async with asyncio.timeout(30):
        watching = asyncio.get_running_loop().create_task(others())
        answer = await json_list(LONG)
        packed = await conditional(request(accept_encoding="gzip"), answer)
        watching.cancel()
    assert isinstance(packed, HttpResponse)
    assert json.loads(gzip.decompress(packed.content)) == LONG
    assert len(gaps) > 50
    assert max(gaps) < sum(gaps) / 3, "CPU between two turns of another, of the whole"


@pytest.mark.usefixtures("store")
async def test_a_get_is_answered_304_over_http() -> None:
    first = await Client("GET", "/admin/v2/tenants").say().served()
    tag = first.headers["etag"].encode()
    again = await Client("GET", "/admin/v2/tenants", (b"if-none-match", tag)).say().served()
    assert (again.status, again.body) == (304, b"")
    assert "content-length" not in again.headers
