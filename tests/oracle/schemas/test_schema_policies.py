"""Policies about schemas and what they allow producers and consumers: of namespaces and topics, old and new names."""

import pytest

from engine.tenancy.strategy import BY_OLD_NAME
from tests.oracle.conftest import Side
from tests.oracle.schemas.script import AUTO_CONSUME, BYTES, STRING, Script, beside, record

A = record(("a", "int"))
A_B = record(("a", "int"), ("b", "int", 0))
A_B_REQUIRED = record(("a", "int"), ("b", "int"))
STRATEGY, OLD_STRATEGY = "schemaCompatibilityStrategy", "schemaAutoUpdateCompatibilityStrategy"
AUTO_UPDATE, ENFORCED = "isAllowAutoUpdateSchema", "schemaValidationEnforced"


@pytest.mark.timeout(300)
def test_a_topics_own_strategy_goes_before_its_namespaces(sides: tuple[Side, Side]) -> None:
    def play(script: Script) -> None:
        path = f"persistent/{script.namespace}/own/{STRATEGY}"
        script.strategy("ALWAYS_INCOMPATIBLE")
        for topic in ("own", "other"):
            script.make(topic)
            script.produce(topic, A)
        for word in ("BACKWARD", "FORWARD", "UNDEFINED"):
            script.topic_policy("own", STRATEGY, word, shown="" if word == "UNDEFINED" else word)
            script.rest("GET", f"{path}?applied=true")
            for topic in ("own", "other"):
                for candidate in (A_B, A_B_REQUIRED, STRING):
                    script.verdict(topic, candidate)
                script.create(topic, A_B_REQUIRED)
                script.register(topic, A_B)
                script.schemas("GET", topic, "schemas")
        script.rest("DELETE", path)
        script.rest("GET", path)
        script.leave()

    beside(sides, "own", play)


@pytest.mark.timeout(300)
def test_the_older_policy_holds_where_the_newer_is_not_set(sides: tuple[Side, Side]) -> None:
    def play(script: Script) -> None:
        path = f"namespaces/{script.namespace}/{OLD_STRATEGY}"
        script.rest("GET", path)
        script.register("t", A)
        for word, strategy in BY_OLD_NAME.items():
            script.policy(OLD_STRATEGY, word)
            script.wait_for_strategy(strategy.value)
            script.rest("GET", path)
            script.rest("GET", f"namespaces/{script.namespace}/{STRATEGY}")
            for candidate in (A, A_B_REQUIRED):
                script.verdict("t", candidate)
        script.create("t", A_B_REQUIRED)
        script.strategy("BACKWARD")
        script.rest("GET", path)
        script.policy(OLD_STRATEGY, None)
        script.rest("GET", path)
        script.strategy("UNDEFINED", effective="FULL")
        script.rest("GET", f"namespaces/schemas/nobody/{OLD_STRATEGY}")
        script.policy(OLD_STRATEGY, {})
        script.policy(OLD_STRATEGY, [])
        script.rest("GET", f"namespaces/{script.namespace}")

    beside(sides, "older", play)


@pytest.mark.timeout(300)
def test_where_schemas_are_required_producers_need_one_once_the_topic_has(
    sides: tuple[Side, Side],
) -> None:
    def play(script: Script) -> None:
        script.make("before")
        for given in (None, STRING, None):
            script.produce("before", given)
        script.subscribe("before", None)
        script.leave()
        script.flag(ENFORCED, True, "before")
        script.produce("new", None)
        script.subscribe("new", None)
        script.send()
        script.produce("new", STRING)
        script.leave()
        for topic in ("none", "string"):
            script.produce(topic, BYTES if topic == "none" else STRING)
            script.produce(topic, None)
            script.subscribe(topic, BYTES, "bytes")
            script.subscribe(topic, None, "without")
            script.subscribe(topic, AUTO_CONSUME, "auto")
            script.create(topic, BYTES)
            script.leave()
        script.produce("before", None)
        script.schemas("DELETE", "string", "schema")
        script.produce("string", None)
        script.leave()

    beside(sides, "required", play)


@pytest.mark.timeout(300)
def test_a_topic_says_for_itself_whether_schemas_are_required(sides: tuple[Side, Side]) -> None:
    """Set the topic's own policy while the namespace requires schemas, even of the policies' own topic."""

    def play(script: Script) -> None:
        script.make("t")
        script.flag(ENFORCED, True, "t")
        script.produce("t", STRING)
        script.leave()
        path = f"persistent/{script.namespace}/t/{ENFORCED}"
        for required in (False, True):
            script.topic_policy("t", ENFORCED, required, "POST", applied=True)
            script.rest("GET", path)
            script.produce("t", None)
            script.leave()
        script.policy(ENFORCED, False, "POST")
        script.rest("GET", f"{path}?applied=true")
        script.produce("t", None)
        script.produce("t", STRING)
        for version in (None, 0, 7):
            script.send(**({} if version is None else {"schema_version": version.to_bytes(8)}))

    beside(sides, "required-here", play)


@pytest.mark.timeout(300)
def test_without_automatic_updates_administrators_alone_add_versions(
    sides: tuple[Side, Side],
) -> None:
    def play(script: Script) -> None:
        script.policy(AUTO_UPDATE, False, "POST")
        script.produce("by-producer", A)
        script.create("by-producer", A)
        script.subscribe("by-consumer", A)
        script.get("by-consumer")
        script.make("asked")
        script.create("asked", A)
        script.register("asked", A)
        for schema in (A, A_B, STRING):
            script.create("asked", schema)
            script.produce("asked", schema)
            script.subscribe("asked", schema)
        script.register("asked", A_B)
        script.produce("asked", A_B)
        script.verdict("asked", A_B_REQUIRED)
        script.leave()
        script.schemas("DELETE", "asked", "schema")
        script.produce("asked", A)
        script.topic_policy("asked", STRATEGY, "BACKWARD")
        script.register("asked", A)
        script.produce("asked", A)
        script.produce("asked", A_B)
        script.leave()

    beside(sides, "by-hand", play)


@pytest.mark.timeout(300)
def test_a_consumers_schema_on_topics_that_have_none(sides: tuple[Side, Side]) -> None:
    """Register the first client's schema, except on topics with stored messages or with clients that have none."""

    def play(script: Script) -> None:
        script.subscribe("first", A)
        script.get("first")
        for name, given in (("b", A_B), ("s", STRING), ("none", None), ("auto", AUTO_CONSUME)):
            script.subscribe("first", given, name)
        script.leave()
        for topic, before in (("auto", AUTO_CONSUME), ("bytes", None)):
            script.subscribe(topic, before)
            script.get(topic)
            script.subscribe(topic, A, "typed")
            script.get(topic)
            script.leave()
            script.subscribe(topic, A, "typed")
            script.get(topic)
            script.leave()
        script.produce("published", None)
        script.subscribe("published", A)
        script.send()
        script.leave()
        for name, given in (("a", A), ("auto", AUTO_CONSUME), ("s", STRING)):
            script.subscribe("published", given, name)
        script.produce("published", A)
        script.get("published")
        script.subscribe("published", A)
        script.leave()
        for topic, given in (("reader-bytes", None), ("reader", A)):
            script.subscribe(topic, given, durable=False)
            script.get(topic)
            script.subscribe(topic, A, "typed")
            script.leave()
        script.make("idle")
        script.rest("PUT", f"persistent/{script.namespace}/idle/subscription/kept")
        script.subscribe("idle", A, "typed")
        script.get("idle")
        script.leave()

    beside(sides, "consumers", play)


@pytest.mark.timeout(300)
def test_a_version_is_asked_for_and_made_by_clients(sides: tuple[Side, Side]) -> None:
    def play(script: Script) -> None:
        script.create("missing", A)
        script.get("missing")
        script.make("there")
        script.create("there", BYTES)
        script.create("there", A)
        script.create("there", AUTO_CONSUME)
        script.get("there", b"")
        for number in (0, 1, 1 << 62):
            script.get("there", number.to_bytes(8))
        script.get("there", (0).to_bytes(64))

    beside(sides, "asked", play)
