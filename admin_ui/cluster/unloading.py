"""All bundles of a namespace or of a broker given up: what that would do, and exactly that done."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from admin_ui import confirming
from admin_ui.cluster import selectors
from admin_ui.confirming import Json
from engine.base.errors import Conflict, MagnetarError, NotFound, NotReady, Unprocessable
from engine.base.names import BundleName, NamespaceName
from gateway.services import bundles, unloading
from gateway.services.bundles import Owned
from gateway.services.collector import now_ms
from gateway.services.engine_link import Engine
from gateway.services.unloading import Ended, Outcome

KIND = "bundles-unload"
BUNDLES_MAX = 10_000
"""Of one preview: more would not fit the token that names each of them."""
NAMED = 5
"""Of a preview, and of each kind of difference."""
OTHERS_MAX = 100
"""Bundles that a receipt names, of those that were not given up."""
APPLY_S = 10.0
"""For all of them: a browser waits 15 s for an answer."""
LOOK_S = 2.0
"""To look afterwards who has them."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose bundles: of a namespace, or what a broker owns (its id, or address when it is not registered)."""

    namespace: NamespaceName | None = None
    broker: str = ""

    def __str__(self) -> str:
        return f"namespace {self.namespace}" if self.namespace else f"broker {self.broker}"


@dataclass(frozen=True, slots=True)
class OwnedBundles:
    """``owners``: address, by bundle; ``unowned``: how many there are beside, of a namespace."""

    owned: list[Owned]
    owners: dict[BundleName, str]
    unowned: int

    @property
    def named(self) -> dict[str, str]:
        """As it is signed."""
        return {str(bundle): owner for bundle, owner in self.owners.items()}


async def preview(engine: Engine, scope: Scope, user: str) -> Json:
    """What would be given up, with the token that confirms exactly that. Raises NotFound, and Unprocessable for more
    than can be confirmed at once."""
    found = await _find(engine, scope)
    total = len(found.owners)
    if total > BUNDLES_MAX:
        raise Unprocessable(
            f"{total} bundles have an owner, and at most {BUNDLES_MAX} are unloaded at once:"
            " unload a namespace or a broker that has fewer, or one bundle at a time"
        )
    said = _about(scope, user) | {"owners": found.named}
    return {
        "token": confirming.sign(KIND, said) if total else None,
        "at": now_ms(),
        "total": total,
        "unowned": found.unowned,
        "first": [str(bundle) for bundle in islice(found.owners, NAMED)],
        "brokers": await selectors.answering(),
        **await selectors.together(found.owned, found.owners),
    }


async def apply(engine: Engine, scope: Scope, user: str, token: str) -> Json:
    """Have exactly the previewed bundles given up. Raises Conflict when they are others by now, or have other owners:
    nothing is done then. Raises Conflict or NotReady, too, when none is known to have been given up."""
    until = asyncio.get_running_loop().time() + APPLY_S
    said = confirming.read(KIND, token, _about(scope, user))
    found = await _find(engine, scope)
    _check_as_seen(said["owners"], found.named)
    try:
        ended = await unloading.give_up(engine, found.owners, until)
    finally:
        selectors.forget()
    done = [bundle for bundle, one in ended.items() if one.outcome is Outcome.DONE]
    by_now = await _owners_by_now(engine, done)
    for bundle, owner in (by_now or {}).items():
        if owner is None:
            # Asked for what it had cut in two just before, a broker has nothing to do, and says that it did it.
            ended[bundle] = Ended(Outcome.LEFT, "It was split meanwhile")
    if all(one.outcome is not Outcome.DONE for one in ended.values()):
        raise _nothing_done(ended)
    return await _receipt(found, ended, by_now)


async def _receipt(
    found: OwnedBundles, ended: dict[BundleName, Ended], by_now: dict[BundleName, str | None] | None
) -> Json:
    names = await selectors.broker_names()
    counts = Counter(one.outcome for one in ended.values())
    others = [
        {
            "bundle": str(bundle),
            "broker": names.get(found.owners[bundle], found.owners[bundle]),
            "outcome": one.outcome.value,
            "why": one.why,
        }
        for bundle, one in sorted(ended.items(), key=lambda item: str(item[0]))
        if one.outcome is not Outcome.DONE
    ]
    owners = Counter(owner for owner in (by_now or {}).values() if owner is not None)
    return {
        "at": now_ms(),
        "total": len(ended),
        **{outcome.value: counts[outcome] for outcome in Outcome},
        "others": others[:OTHERS_MAX],
        "owners": None
        if by_now is None
        else [
            {"broker": names.get(owner, owner), "bundles": count}
            for owner, count in owners.most_common()
        ],
    }


async def _find(engine: Engine, scope: Scope) -> OwnedBundles:
    """Bundles that have an owner by what is stored, not by what was kept to be shown."""
    if scope.namespace is not None:
        one = await bundles.owned_in(engine.store, scope.namespace)
        if one is None:
            raise NotFound(f"Namespace {scope.namespace} does not exist")
        owners = {each: one.owners[each.range] for each in one.bundles if each.range in one.owners}
        return OwnedBundles([one], owners, len(one.bundles) - len(owners))
    url = await selectors.address_of(scope.broker)
    every = await bundles.all_owned(engine.store)
    owners = {
        each: url for one in every for each in one.bundles if one.owners.get(each.range) == url
    }
    if not owners and url == scope.broker:
        raise NotFound(f"There is no broker {scope.broker}, and nobody of that name owns a bundle")
    names = {bundle.namespace for bundle in owners}
    return OwnedBundles([one for one in every if one.bundles.namespace in names], owners, 0)


def _check_as_seen(seen: dict[str, str], now: dict[str, str]) -> None:
    differing = {
        "owned now and was not": now.keys() - seen.keys(),
        "not owned any more": seen.keys() - now.keys(),
        "owned by another broker now": {
            name for name in seen.keys() & now.keys() if seen[name] != now[name]
        },
    }
    told = [f"{_some(names)} {how}" for how, names in differing.items() if names]
    if told:
        raise Conflict(f"The bundles are not those of the preview any more: {'; '.join(told)}")


def _some(names: Iterable[str]) -> str:
    every = sorted(names)
    more = f" and {len(every) - NAMED} more" if len(every) > NAMED else ""
    return f"{', '.join(every[:NAMED])}{more} {'is' if len(every) == 1 else 'are'}"


def _nothing_done(ended: dict[BundleName, Ended]) -> MagnetarError:
    """A refusal when nothing can have been done, else NotReady, with the reasons and how many bundles each is of."""
    whys = Counter(one.why for one in ended.values()).most_common()
    told = "; ".join(f"{why} ({count} of {len(ended)} bundles)" for why, count in whys[:NAMED])
    if all(one.outcome is Outcome.LEFT for one in ended.values()):
        return Conflict(f"No bundle was as previewed when its turn came: {told}")
    return NotReady(f"No bundle is known to have been given up: {told}")


async def _owners_by_now(
    engine: Engine, done: list[BundleName]
) -> dict[BundleName, str | None] | None:
    """None when the store does not say in time: they are given up all the same."""
    try:
        async with asyncio.timeout(LOOK_S):
            return await unloading.owners_by_now(engine.store, done)
    except (MagnetarError, OSError):
        return None


def _about(scope: Scope, user: str) -> Json:
    return {"scope": str(scope), "user": user}
