"""A gateway whose callers are identified, with people who sign in by a cheap hash."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from gateway.people.models import Person
from tests.support.access.browser import PASSWORD, Browser
from tests.support.access.callers import by_token
from tests.support.admin.gateway_client import Gateway, call, cluster, engine, gateway

__all__ = ["call", "cluster", "engine", "gateway"]

CHEAP_HASH = "django.contrib.auth.hashers.MD5PasswordHasher"
AddPerson = Callable[..., Any]


@pytest.fixture
def door(call: Gateway, settings: Any) -> Gateway:
    """The gateway, where authentication is on and ``root`` is the role of superusers."""
    settings.PASSWORD_HASHERS = [CHEAP_HASH]
    settings.IDENTITY = by_token(super_user_roles="root")
    return call


@pytest.fixture
def browser(door: Gateway) -> Browser:
    return Browser(door)


@pytest.fixture
def add(door: Gateway) -> AddPerson:
    """``add(name, *roles, **fields)``: a person with ``role:level`` each; ``root`` as a superuser without a record."""

    def made(name: str, *roles: str, **fields: Any) -> Any:
        user = get_user_model().objects.create_user(name, password=PASSWORD)
        stored = [dict(zip(("role", "level"), item.split(":"), strict=True)) for item in roles]
        Person.objects.create(user=user, roles=stored, **fields)
        return user

    return made


@pytest.fixture
def root(add: AddPerson) -> Any:
    """A superuser."""
    return add("root", "root:full")
