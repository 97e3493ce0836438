"""A function logs in with the role of its creator or of its tenant, never with that of a superuser."""

import base64
import os

import pytest

from engine.auth.authenticators import jws
from engine.auth.authenticators.key_texts import secret_key
from engine.auth.settings import TokenSettings
from engine.base.clock import LoopClock
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.worker.running.function_tokens import (
    LIFETIME_S,
    FunctionTokens,
    role_after_update,
    role_for,
    role_given,
    with_role,
)

SUPERUSERS = frozenset({"root", "internal"})
KEY = "data:;base64," + base64.b64encode(os.urandom(32)).decode()


@pytest.mark.parametrize(
    ("caller", "admins", "role"),
    [
        ("ann", ["bob"], "ann"),
        ("root", ["zoe", "bob"], "bob"),
        ("internal", ["bob"], "bob"),
        ("root", ["root"], "functions-t"),
        ("", [], "functions-t"),
    ],
)
def test_the_role_is_the_creators_unless_that_is_a_superuser(
    caller: str, admins: list[str], role: str
) -> None:
    assert role_for("t", caller, admins, SUPERUSERS) == role


@pytest.mark.parametrize(
    ("caller", "role"), [("ann", "ann"), ("bob", "bob"), ("root", "ann"), ("", "ann")]
)
def test_an_update_gives_a_function_the_role_of_its_caller_unless_that_is_a_superuser(
    caller: str, role: str
) -> None:
    assert role_after_update("ann", caller, SUPERUSERS) == role


async def test_a_token_has_the_role_and_an_end_and_is_verified_by_the_brokers_key() -> None:
    metadata = pb.FunctionMetaData()
    with_role(metadata, "ann")
    settings = TokenSettings(token_audience_claim="aud", token_audience="pulsar")
    clock = LoopClock()
    token = FunctionTokens(KEY, settings, clock).issue(metadata)
    claims = jws.verify(jws.parse(token), secret_key(KEY, "k"))
    assert (claims["sub"], claims["aud"]) == ("ann", "pulsar")
    assert claims["exp"] - claims["iat"] == LIFETIME_S


async def test_a_function_of_another_kind_of_worker_has_no_token() -> None:
    metadata = pb.FunctionMetaData()
    metadata.functionAuthSpec.provider = "org.apache.pulsar.functions.auth.Other"
    metadata.functionAuthSpec.data = b"secret"
    assert FunctionTokens(KEY, TokenSettings(), LoopClock()).issue(metadata) == ""


async def test_the_role_of_a_token_that_an_apache_worker_stored_is_its_subject() -> None:
    metadata = pb.FunctionMetaData()
    with_role(metadata, "ann")
    assert role_given(metadata) == "ann"
    token = FunctionTokens(KEY, TokenSettings(), LoopClock()).issue(metadata)
    metadata.functionAuthSpec.CopyFrom(pb.FunctionAuthenticationSpec(data=token.encode()))
    assert role_given(metadata) == "ann"
    metadata.functionAuthSpec.data = b"no.token.atall"
    assert role_given(metadata) == ""
