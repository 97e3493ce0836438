"""Grants of a place, and changes of them: the preview of the effects, and exactly the previewed change or a refusal."""

from copy import deepcopy
from typing import Any, NamedTuple

from admin_ui import confirming
from admin_ui.confirming import Json
from admin_ui.grants.shapes import ADMIN, USE
from admin_ui.rights import KINDS, parts_of
from engine.admin.api.losses import ChangedRecords
from engine.auth.authorization.evaluator import AccessRules, namespace_of
from engine.auth.authorization.policy_view import NamespaceAccess, TenantAccess
from engine.auth.authorization.reasons import RoleAccess, any_topic, roles_at
from engine.auth.resource_names import Resource, SubscriptionName, TenantName
from engine.base.errors import Conflict, InvalidField
from engine.base.names import NamespaceName, TopicName, check_subscription
from engine.metadata.records import Document
from engine.tenancy import grants
from engine.tenancy.checks import ACTIONS
from engine.tenancy.namespaces import get_policies, update_policies
from engine.tenancy.tenants import get_tenant, require_whole, set_administrators
from gateway.services.admin import existence, losses
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine

KIND = "grant-change"
WITHIN_S = 1.0
"""Longest time until brokers have closed what is no longer allowed."""
Place = TenantName | NamespaceName | TopicName


class Grant(NamedTuple):
    """The place of a grant: a tenant, namespace or topic, or a subscription of a namespace."""

    place: Place
    subscription: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The words that may be granted here."""
        if isinstance(self.place, TenantName):
            return (ADMIN,)
        return (USE,) if self.subscription else ACTIONS


class _Records(NamedTuple):
    """The records of a place: the administrators of the tenant, and the policies of the namespace."""

    administrators: list[str]
    policies: Document

    def tenant(self, name: str) -> TenantAccess:
        return TenantAccess(frozenset(self.administrators))

    def namespace(self, name: NamespaceName) -> NamespaceAccess:
        return NamespaceAccess.of(self.policies)


def grant_of(place: Resource, subscription: str) -> Grant:
    """Return the place of a grant. Raises InvalidField."""
    if not isinstance(place, TenantName | NamespaceName | TopicName):
        raise InvalidField("tenant", "nothing is granted on the cluster; name a tenant")
    if subscription:
        if not isinstance(place, NamespaceName):
            raise InvalidField("subscription", "is of a namespace, whose name the query must have")
        check_subscription(subscription)
    return Grant(place, subscription)


def checked_words(grant: Grant, role: str, words: list[str]) -> list[str]:
    """Return the words of a change, each once, in their order. Raises InvalidField."""
    if not role or role != role.strip():
        raise InvalidField("role", "must not be empty, nor begin or end with a blank")
    for word in words:
        if word not in grant.words:
            raise InvalidField("words", f"{word} is none of {', '.join(grant.words)}")
    return [word for word in grant.words if word in words]


async def listed(engine: Engine, place: Resource) -> Json:
    """Return the grants at a place and those of its namespace and tenant. Raises NotFound, InvalidField."""
    target = grant_of(place, "")
    records = await _read(engine, target.place)
    rows = [_row(TenantName(_tenant(place)), role, [ADMIN]) for role in records.administrators]
    if (namespace := namespace_of(place)) is not None:
        stored = records.policies.get("auth_policies") or {}
        for role, words in (stored.get("namespace_auth") or {}).items():
            rows.append(_row(namespace, role, words))
        for name, roles in (stored.get("subscription_auth_roles") or {}).items():
            rows += [_row(namespace, role, [USE], name) for role in roles]
        for full, granted in (stored.get("destination_auth") or {}).items():
            if not isinstance(place, TopicName) or full in (place.full, place.partitioned.full):
                topic = TopicName.parse(full)
                rows += [_row(topic, role, words) for role, words in granted.items()]
    return {"rows": rows}


def _row(place: Resource, role: str, words: list[str], subscription: str = "") -> Json:
    parts = parts_of(place)
    if subscription:
        parts |= {"kind": KINDS[SubscriptionName], "subscription": subscription}
    return {**parts, "role": role, "words": list(words or ())}


def _tenant(place: Resource) -> str:
    return parts_of(place)["tenant"]


async def _read(engine: Engine, place: Place) -> _Records:
    """Return the records of a place. Raises NotFound, and Conflict for a damaged one."""
    tenant = await get_tenant(engine.store, _tenant(place))
    require_whole(tenant)
    policies: Document = {}
    if (namespace := namespace_of(place)) is not None:
        policies = deepcopy(dict(await get_policies(engine.store, namespace)))
        grants.require_whole(policies)
    return _Records(list(tenant.get("adminRoles") or ()), policies)


def _words(grant: Grant, role: str, records: _Records) -> list[str]:
    """Return the words that a role has at a place."""
    if isinstance(grant.place, TenantName):
        return [ADMIN] if role in records.administrators else []
    if grant.subscription:
        return [USE] if role in grants.roles_in(records.policies, grant.subscription) else []
    topic = grant.place if isinstance(grant.place, TopicName) else None
    stored = grants.words_of(records.policies, role, topic=topic)
    # A word of another tool stays last, so that it is shown and not lost unseen.
    return sorted(stored, key=lambda word: (*ACTIONS, word).index(word))


def _put(grant: Grant, role: str, words: list[str], policies: Document) -> None:
    """Set the words of a role in the policies of a namespace."""
    if grant.subscription:
        roles = grants.roles_in(policies, grant.subscription)
        others = [name for name in roles if name != role]
        grants.put_roles(policies, grant.subscription, [*others, role] if words else others)
    else:
        topic = grant.place if isinstance(grant.place, TopicName) else None
        grants.put_words(policies, role, words, topic=topic)


def _after(grant: Grant, role: str, words: list[str], records: _Records) -> _Records:
    changed = deepcopy(records)
    if isinstance(grant.place, TenantName):
        others = [name for name in records.administrators if name != role]
        return changed._replace(administrators=[*others, role] if words else others)
    _put(grant, role, words, changed.policies)
    return changed


async def preview(
    engine: Engine,
    grant: Grant,
    role: str,
    words: list[str],
    user: str,
    *,
    rules: AccessRules,
    own_role: str,
) -> Json:
    """Return what a change would do, with the token that confirms exactly that. Raises NotFound."""
    if isinstance(grant.place, TopicName) and words:
        await existence.require_any(engine, grant.place)
    records = await _read(engine, grant.place)
    before = _words(grant, role, records)
    changed = _after(grant, role, words, records)
    effects = _effects(grant, records, changed, rules)
    lost = await losses.open_losses(engine, _asked(grant, changed))
    content = _about(grant, user) | {"role": role, "before": before, "after": words}
    return {
        "token": confirming.sign(engine.served, KIND, content),
        "at": now_ms(),
        "before": before,
        "after": words,
        "effects": effects,
        "own_loss": any(row["role"] == own_role and row["lost"] for row in effects),
        "connections": losses.would_close(lost),
        "within_s": WITHIN_S,
    }


def _effects(grant: Grant, before: _Records, after: _Records, rules: AccessRules) -> list[Json]:
    """Return the roles whose rights at the place differ."""
    old, new = (_rights(grant, records, rules) for records in (before, after))
    rows = []
    for role in sorted(old.keys() | new.keys()):
        had, has = old.get(role, []), new.get(role, [])
        if had != has:
            gained = [action for action in has if action not in had]
            lost = [action for action in had if action not in has]
            rows.append({"role": role, "gained": gained, "lost": lost})
    return rows


def _rights(grant: Grant, records: _Records, rules: AccessRules) -> dict[str, list[str]]:
    place: Resource = grant.place
    if grant.subscription and isinstance(place, NamespaceName):
        topic = any_topic(place, records.namespace(place))
        place = SubscriptionName(topic, grant.subscription)
    rows: list[RoleAccess] = roles_at(place, records, rules)
    return {row.role: [action.value for action, _ in row.allowed] for row in rows}


async def apply(engine: Engine, grant: Grant, user: str, token: str) -> Json:
    """Make the change that was previewed. Raises Conflict when the grant has changed since, NotFound."""
    content = confirming.read(engine.served, KIND, token, _about(grant, user))
    role, before, after = content["role"], content["before"], content["after"]
    records = await _read(engine, grant.place)
    asked = _asked(grant, _after(grant, role, after, records))
    lost = await losses.open_losses(engine, asked)
    namespace = namespace_of(grant.place)
    if namespace is None:
        await _set_administrator(engine, grant, role, before, after)
    else:

        def change(policies: Document) -> None:
            grants.require_whole(policies)
            if _words(grant, role, _Records([], policies)) != before:
                raise _changed(role)
            _put(grant, role, after, policies)

        await update_policies(engine.store, namespace, change)
    return {
        "at": now_ms(),
        "role": role,
        "subscription": grant.subscription,
        "before": before,
        "after": after,
        "closed": await losses.closed_since(engine, asked, lost),
    }


def _asked(grant: Grant, records: _Records) -> ChangedRecords:
    tenant, namespace = _tenant(grant.place), namespace_of(grant.place)
    return losses.changed_records(tenant, records.administrators, namespace, records.policies)


async def _set_administrator(
    engine: Engine, grant: Grant, role: str, before: list[str], after: list[str]
) -> None:
    records = await _read(engine, grant.place)
    if _words(grant, role, records) != before:
        raise _changed(role)
    wanted = _after(grant, role, after, records).administrators
    name = _tenant(grant.place)
    await set_administrators(engine.store, name, wanted, expected=records.administrators)


def _changed(role: str) -> Conflict:
    return Conflict(f"The grants of {role} were changed meanwhile; look at them again")


def _about(grant: Grant, user: str) -> dict[str, Any]:
    return {"place": str(grant.place), "subscription": grant.subscription, "user": user}
