"""Mistakes in what needs attention and in the health of the parts."""

from tests.mutants.edit import Edit

SERVICE = "gateway/services/attention"
BOARD_AMOUNTS = "unit/gateway/services/attention/test_board_amounts.py"
BOARD_BEGINS = "unit/gateway/services/attention/test_board_begins.py"
BOARD_OUTAGES = "unit/gateway/services/attention/test_board_outages.py"
HEALTH = "gateway/services/health"
HOPS = "unit/gateway/services/health/test_hops.py"

EDITS = (
    Edit(
        "part-asked-until-the-first-surprise",
        "gateway/services/health/checks.py::Checks._run_checks",
        "except Exception as error:",
        "except UnwellError as error:",
        (
            "unit/gateway/services/health/test_checks.py"
            "::test_a_part_whose_check_breaks_is_down_and_checked_again",
        ),
        "",
    ),
    Edit(
        "publishing-goes-on-while-any-bookie-is-writable",
        f"{SERVICE}/quorums.py::Publishing.is_stopped",
        "self.writable < self.need.ack_quorum",
        "self.writable < 1",
        (f"{BOARD_OUTAGES}::test_that_nothing_can_be_published_is_the_first_of_all",),
    ),
    Edit(
        "who-left-with-others-is-a-problem-of-its-own",
        f"{SERVICE}/board.py::Board._belongs_to_outage",
        "return not self._memory.existed_at(finding, outage.at - CLOCKS_MS)",
        "return False",
        (f"{BOARD_OUTAGES}::test_clients_that_left_together_are_one_problem",),
    ),
    Edit(
        "deleting-is-advised-after-an-outage",
        f"{SERVICE}/outages.py::Outages.is_recent",
        "now_ms - self._quiet_since < KEPT_MS",
        "False",
        (f"{BOARD_OUTAGES}::test_clients_that_left_together_are_one_problem",),
    ),
    Edit(
        "the-worker-is-missed-while-redis-is-away",
        f"{HEALTH}/parts.py::Redis.check_worker",
        'raise NotKnownError("reports through Redis, which does not answer")',
        'raise UnwellError("does not report")',
        (
            "unit/gateway/services/health/test_parts.py::test_a_worker_is_reported_missing_only_while_redis_has_its_state",
        ),
    ),
    Edit(
        "topics-go-to-brokers-that-are-not-there",
        f"{HEALTH}/hops.py::Hops._advice",
        "if HopState.OK in others",
        "if True",
        (f"{HOPS}::test_advice_holds_at_the_time_and_with_the_other_hops",),
    ),
    Edit(
        "an-error-page-is-an-answer",
        "gateway/services/bookies.py::Bookies._check",
        "if answer.status != 200:",
        "if False:",
        ("unit/gateway/services/test_bookies.py::test_an_answer_is_not_success",),
    ),
    Edit(
        "clients-of-a-minute-ago-are-forgotten",
        f"{SERVICE}/outages.py::Outages._add_sample",
        "return",
        "samples.pop()",
        (
            "unit/gateway/services/attention/test_outages.py::test_clients_that_leave_at_once_are_one_event_however_often_it_is_checked",
        ),
    ),
    Edit(
        "bookies-are-missed-while-they-register-again",
        "gateway/services/bookies.py::Bookies._may_register",
        "return is_back or hop.state in BAD",
        "return False",
        (
            "unit/gateway/services/test_bookies.py::test_bookies_that_lost_their_sessions_with_the_store_may_register_again",
        ),
    ),
    Edit(
        "what-falls-behind-began-when-its-topic-moved",
        "gateway/services/attention/memory.py::Memory.dated",
        "finding.since_ms - seen_ms > RETURNS_MS",
        "True",
        (f"{BOARD_BEGINS}::test_a_subscription_that_falls_behind_did_so_before_its_topic_moved",),
    ),
    Edit(
        "what-was-found-at-loading-began-then",
        "gateway/services/attention/memory.py::_judged",
        "finding.since_ms - loaded_ms > RETURNS_MS",
        "True",
        (f"{BOARD_BEGINS}::test_a_problem_found_shortly_after_loading_may_be_older",),
    ),
    Edit(
        "harm-is-measured-in-entries",
        "gateway/services/attention/ranking.py::Problem.waiting",
        "return self.backlog if self.messages is None else self.messages",
        "return self.backlog",
        (f"{BOARD_AMOUNTS}::test_few_large_batches_do_more_harm_than_more_single_messages",),
    ),
)
