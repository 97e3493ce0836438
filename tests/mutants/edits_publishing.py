"""Mistakes in what happens to runs between the socket and the log: stages, deduplication, claims of the client; and in
how topics are deleted under them."""

from tests.mutants.edit import Edit

DEDUPLICATION = "engine/broker/topics/deduplication.py::Deduplication"
DEDUPLICATION_TEST = "unit/broker/topics/test_deduplication.py"
RECOVERED = (f"{DEDUPLICATION_TEST}::test_entries_that_recovery_brings_into_the_log_are_known",)
STAGES_TEST = "unit/broker/topics/test_stages.py"

EDITS = (
    Edit(
        "stages-stand-in-the-order-of-their-making",
        "engine/broker/topics/publish.py::in_order",
        "sorted(wanted, key=_place)",
        "wanted",
        (
            f"{STAGES_TEST}::test_stages_stand_in_one_order_whichever_policy_comes_first",
            f"{STAGES_TEST}::test_a_loaded_topic_has_the_stages_that_one_with_changed_policies_has",
        ),
        "D16",
    ),
    Edit(
        "recovered-entries-are-not-known",
        f"{DEDUPLICATION}.take_recovered",
        "self._recall(run.entry(i))",
        "pass",
        RECOVERED,
        "D14",
    ),
    Edit(
        "recovery-tells-nobody",
        "engine/managed/writing/rolling.py::LedgerList._settle",
        "self.recovered(entries, size)",
        "pass",
        RECOVERED,
        "D14",
    ),
    Edit(
        "what-comes-before-the-recovery-is-judged",
        f"{DEDUPLICATION}.failed",
        "if self._doubting is None and not self._host.scope.closed:",
        "if False:",
        (
            f"{DEDUPLICATION_TEST}::"
            "test_what_waits_for_a_recovery_is_given_back_when_the_topic_closes",
        ),
        "D14",
    ),
    Edit(
        "runs-of-an-earlier-period-are-counted",
        f"{DEDUPLICATION}._landed",
        "if publish.judged != self._period:",
        "if not publish.judged:",
        (
            f"{DEDUPLICATION_TEST}::"
            "test_a_change_of_the_policy_while_entries_are_under_way_leaves_no_resend_waiting",
        ),
        "D14",
    ),
    Edit(
        "what-is-under-way-when-it-begins-is-not-waited-for",
        f"{DEDUPLICATION}._begin",
        "await self._know_earlier()",
        "pass",
        (
            f"{DEDUPLICATION_TEST}::"
            "test_who_comes_while_entries_of_before_are_under_way_waits_for_them",
        ),
        "D14",
    ),
)
