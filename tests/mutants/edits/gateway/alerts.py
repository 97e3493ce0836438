"""Mistakes in alerts."""

from tests.mutants.edit import Edit

EVALUATION = "unit/gateway/alerts/test_evaluator.py"

EDITS = (
    Edit(
        "a-gateway-writes-without-the-lease",
        "gateway/alerts/store.py::write",
        "if not lease.update(evaluated_at=now, until=now + LEASE_MS):",
        "if lease.update(evaluated_at=now, until=now + LEASE_MS) < 0:",
        (f"{EVALUATION}::test_a_gateway_that_lost_its_lease_unnoticed_writes_nothing",),
        holds="J8",
    ),
    Edit(
        "firings-are-not-read-again-with-a-new-lease",
        "gateway/alerts/evaluator.py::Evaluator._look",
        "if self._loaded is None or lease.is_new:",
        "if self._loaded is None:",
        (f"{EVALUATION}::test_a_pending_firing_continues_to_count_after_a_short_gap_only",),
        holds="J8",
    ),
    Edit(
        "a-delivery-is-claimed-by-two",
        "gateway/alerts/store.py::claim",
        "first.next_at > now or first.claimed_until >= now",
        "first.next_at > now",
        (f"{EVALUATION}::test_a_claimed_delivery_is_not_sent_by_others_until_the_claim_ends",),
    ),
    Edit(
        "an-unknown-figure-ends-a-firing",
        "gateway/alerts/transitions.py::advance",
        "elif met is False:",
        "elif not met:",
        (f"{EVALUATION}::test_unknown_figures_neither_begin_nor_end_a_firing",),
        holds="J9",
    ),
    Edit(
        "a-name-is-called-at-an-address-that-is-not-public",
        "gateway/alerts/destinations.py::resolve",
        "is_public(address) or _is_permitted(host, (address,))",
        "True",
        (
            "unit/gateway/alerts/test_sending.py::"
            "test_a_name_with_an_address_that_is_not_public_is_refused",
        ),
    ),
)
