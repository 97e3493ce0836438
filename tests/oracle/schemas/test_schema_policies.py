"""What the policies about schemas let producers and consumers do: of namespaces, of topics, by old and new names."""

import pytest

from engine.tenancy.strategy import BY_OLD_NAME
from tests.oracle.conftest import Side
from tests.oracle.schemas.script import AUTO_CONSUME, BYTES, STRING, Told, beside, record

A = record(("a", "int"))
A_B = record(("a", "int"), ("b", "int", 0))
A_B_REQUIRED = record(("a", "int"), ("b", "int"))
STRATEGY, OLD_STRATEGY = "schemaCompatibilityStrategy", "schemaAutoUpdateCompatibilityStrategy"
AUTO_UPDATE, ENFORCED = "isAllowAutoUpdateSchema", "schemaValidationEnforced"


@pytest.mark.timeout(300)
def test_a_topics_own_strategy_goes_before_its_namespaces(sides: tuple[Side, Side]) -> None:
    def play(told: Told) -> None:
        path = f"persistent/{told.namespace}/own/{STRATEGY}"
        told.strategy("ALWAYS_INCOMPATIBLE")
        for topic in ("own", "other"):
            told.make(topic)
            told.produce(topic, A)
        for word in ("BACKWARD", "FORWARD", "UNDEFINED"):
            told.topic_policy("own", STRATEGY, word, shown="" if word == "UNDEFINED" else word)
            told.rest("GET", f"{path}?applied=true")
            for topic in ("own", "other"):
                for one in (A_B, A_B_REQUIRED, STRING):
                    told.verdict(topic, one)
                told.create(topic, A_B_REQUIRED)
                told.register(topic, A_B)
                told.schemas("GET", topic, "schemas")
        told.rest("DELETE", path)
        told.rest("GET", path)
        told.leave()

    beside(sides, "own", play)


@pytest.mark.timeout(300)
def test_the_older_policy_holds_where_the_newer_is_not_set(sides: tuple[Side, Side]) -> None:
    def play(told: Told) -> None:
        path = f"namespaces/{told.namespace}/{OLD_STRATEGY}"
        told.rest("GET", path)
        told.register("t", A)
        for word, strategy in BY_OLD_NAME.items():
            told.policy(OLD_STRATEGY, word)
            told.heard(strategy.value)
            told.rest("GET", path)
            told.rest("GET", f"namespaces/{told.namespace}/{STRATEGY}")
            for one in (A, A_B_REQUIRED):
                told.verdict("t", one)
        told.create("t", A_B_REQUIRED)
        told.strategy("BACKWARD")
        told.rest("GET", path)
        told.policy(OLD_STRATEGY, None)
        told.rest("GET", path)
        told.strategy("UNDEFINED", heard="FULL")
        told.rest("GET", f"namespaces/schemas/nobody/{OLD_STRATEGY}")
        told.policy(OLD_STRATEGY, {})
        told.policy(OLD_STRATEGY, [])
        told.rest("GET", f"namespaces/{told.namespace}")

    beside(sides, "older", play)


@pytest.mark.timeout(300)
def test_where_schemas_are_required_producers_need_one_once_the_topic_has(
    sides: tuple[Side, Side],
) -> None:
    def play(told: Told) -> None:
        told.make("before")
        for given in (None, STRING, None):
            told.produce("before", given)
        told.subscribe("before", None)
        told.leave()
        told.flag(ENFORCED, True, "before")
        told.produce("new", None)
        told.subscribe("new", None)
        told.send()
        told.produce("new", STRING)
        told.leave()
        for topic in ("none", "string"):
            told.produce(topic, BYTES if topic == "none" else STRING)
            told.produce(topic, None)
            told.subscribe(topic, BYTES, "bytes")
            told.subscribe(topic, None, "without")
            told.subscribe(topic, AUTO_CONSUME, "auto")
            told.create(topic, BYTES)
            told.leave()
        told.produce("before", None)
        told.schemas("DELETE", "string", "schema")
        told.produce("string", None)
        told.leave()

    beside(sides, "required", play)


@pytest.mark.timeout(300)
def test_a_topic_says_for_itself_whether_schemas_are_required(sides: tuple[Side, Side]) -> None:
    """Also where the namespace requires them of all its topics, the one that keeps topics' policies among them."""

    def play(told: Told) -> None:
        told.make("t")
        told.flag(ENFORCED, True, "t")
        told.produce("t", STRING)
        told.leave()
        path = f"persistent/{told.namespace}/t/{ENFORCED}"
        for required in (False, True):
            told.topic_policy("t", ENFORCED, required, "POST", applied=True)
            told.rest("GET", path)
            told.produce("t", None)
            told.leave()
        told.policy(ENFORCED, False, "POST")
        told.rest("GET", f"{path}?applied=true")
        told.produce("t", None)
        told.produce("t", STRING)
        for version in (None, 0, 7):
            told.send(**({} if version is None else {"schema_version": version.to_bytes(8)}))

    beside(sides, "required-here", play)


@pytest.mark.timeout(300)
def test_without_automatic_updates_administrators_alone_add_versions(
    sides: tuple[Side, Side],
) -> None:
    def play(told: Told) -> None:
        told.policy(AUTO_UPDATE, False, "POST")
        told.produce("by-producer", A)
        told.create("by-producer", A)
        told.subscribe("by-consumer", A)
        told.get("by-consumer")
        told.make("asked")
        told.create("asked", A)
        told.register("asked", A)
        for one in (A, A_B, STRING):
            told.create("asked", one)
            told.produce("asked", one)
            told.subscribe("asked", one)
        told.register("asked", A_B)
        told.produce("asked", A_B)
        told.verdict("asked", A_B_REQUIRED)
        told.leave()
        told.schemas("DELETE", "asked", "schema")
        told.produce("asked", A)
        told.topic_policy("asked", STRATEGY, "BACKWARD")
        told.register("asked", A)
        told.produce("asked", A)
        told.produce("asked", A_B)
        told.leave()

    beside(sides, "by-hand", play)


@pytest.mark.timeout(300)
def test_a_consumers_schema_on_topics_that_have_none(sides: tuple[Side, Side]) -> None:
    """The first to use a topic gives it its schema; none does that has stored messages, or other clients without."""

    def play(told: Told) -> None:
        told.subscribe("first", A)
        told.get("first")
        for name, given in (("b", A_B), ("s", STRING), ("none", None), ("auto", AUTO_CONSUME)):
            told.subscribe("first", given, name)
        told.leave()
        for topic, before in (("auto", AUTO_CONSUME), ("bytes", None)):
            told.subscribe(topic, before)
            told.get(topic)
            told.subscribe(topic, A, "typed")
            told.get(topic)
            told.leave()
            told.subscribe(topic, A, "typed")
            told.get(topic)
            told.leave()
        told.produce("published", None)
        told.subscribe("published", A)
        told.send()
        told.leave()
        for name, given in (("a", A), ("auto", AUTO_CONSUME), ("s", STRING)):
            told.subscribe("published", given, name)
        told.produce("published", A)
        told.get("published")
        told.subscribe("published", A)
        told.leave()
        for topic, given in (("reader-bytes", None), ("reader", A)):
            told.subscribe(topic, given, durable=False)
            told.get(topic)
            told.subscribe(topic, A, "typed")
            told.leave()
        told.make("idle")
        told.rest("PUT", f"persistent/{told.namespace}/idle/subscription/kept")
        told.subscribe("idle", A, "typed")
        told.get("idle")
        told.leave()

    beside(sides, "consumers", play)


@pytest.mark.timeout(300)
def test_a_version_is_asked_for_and_made_by_clients(sides: tuple[Side, Side]) -> None:
    def play(told: Told) -> None:
        told.create("missing", A)
        told.get("missing")
        told.make("there")
        told.create("there", BYTES)
        told.create("there", A)
        told.create("there", AUTO_CONSUME)
        told.get("there", b"")
        for number in (0, 1, 1 << 62):
            told.get("there", number.to_bytes(8))
        told.get("there", (0).to_bytes(64))

    beside(sides, "asked", play)
