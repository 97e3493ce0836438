"""Mistakes in what needs attention: causes as brokers find them, which come first, and what nothing found means."""

from tests.mutants.edit import Edit

BOARD = "unit/gateway/services/attention/test_board.py"
CAUSES = "engine/broker/administration/lag_causes.py"
CAUSES_TEST = "unit/broker/administration/test_lag_causes.py"
ROW_LIST = "unit/gateway/services/feeds/test_row_list.py"
FINDINGS = "unit/gateway/services/attention/test_findings.py"
RANKING = "unit/gateway/services/attention/test_ranking.py"
SERVICE = "gateway/services/attention"
HEALTH = "gateway/services/health"
HOPS = "unit/gateway/services/health/test_hops.py"

EDITS = (
    Edit(
        "cause-said-at-once",
        f"{CAUSES}::Watch._report",
        "at_s - self._left_s >= self._hold_s(seen, cause)",
        "True",
        (f"{CAUSES_TEST}::test_a_consumer_that_is_started_again_is_no_lag",),
    ),
    Edit(
        "cause-unsaid-at-once",
        f"{CAUSES}::Watch._report",
        "at_s - self._seen_since_s >= LEAVE_S",
        "True",
        (f"{CAUSES_TEST}::test_a_cause_that_is_gone_and_returns_stays_reported",),
    ),
    Edit(
        "few-messages-are-a-lag-as-soon-as-many",
        f"{CAUSES}::Watch._hold_s",
        "FEW_HOLD_S if few else HOLD_S",
        "HOLD_S",
        (f"{CAUSES_TEST}::test_few_messages_may_take_long",),
    ),
    Edit(
        "all-is-well-before-causes-were-told",
        f"{SERVICE}/board.py::Board.overview",
        "now_ms - since >= SETTLED_MS",
        "now_ms >= since",
        (f"{BOARD}::test_an_answer_without_findings_is_known",),
    ),
    Edit(
        "all-is-well-though-a-broker-did-not-tell",
        f"{SERVICE}/board.py::Board.overview",
        "since = self._since if self._complete else None",
        "since = self._since",
        (f"{BOARD}::test_no_finding_is_settled_only_after_all_topics_were_checked",),
    ),
    Edit(
        "a-topic-that-moves-is-well",
        f"{SERVICE}/board.py::Board.round",
        "self._moves, self._since = self._findings.moves, None",
        "self._moves = self._findings.moves",
        (f"{BOARD}::test_a_topic_that_moves_is_checked_again",),
    ),
    Edit(
        "at-rest-and-loaded-is-well",
        f"{SERVICE}/board.py::Board.round",
        "self._since = None",
        "pass",
        (f"{BOARD}::test_a_topic_that_no_broker_has_and_that_holds_a_backlog",),
    ),
    Edit(
        "what-waits-for-its-time-needs-attention",
        f"{SERVICE}/board.py::Board._index_topics",
        'if problem.severity != "info":',
        "if True:",
        (f"{BOARD}::test_the_list_knows_the_worst_cause_of_a_topic",),
    ),
    Edit(
        "a-list-that-goes-on-takes-away",
        "gateway/services/feeds/row_list.py::RowList.changes",
        'if not answer["more"]:',
        "if True:",
        (f"{ROW_LIST}::test_names_that_a_complete_list_lacks_are_gone_at_its_end",),
    ),
    Edit(
        "the-broker-that-had-it-takes-it-away",
        f"{SERVICE}/findings.py::Findings._remove",
        "if row is not None and self._owner.get(topic) == broker:",
        "if row is not None and topic in self._owner:",
        (f"{FINDINGS}::test_a_topic_that_moves_counts_where_it_was_reported_last",),
    ),
    Edit(
        "age-before-backlog",
        f"{SERVICE}/ranking.py",
        "AGE_POWER = 0.25",
        "AGE_POWER = 1.0",
        (f"{RANKING}::test_a_large_problem_ranks_before_small_ones_of_any_age",),
    ),
    Edit(
        "lines-jump",
        f"{SERVICE}/ranking.py::Ranking._score",
        "held is not None and held / HELD_WITHIN <= score <= held * HELD_WITHIN",
        "False",
        (f"{RANKING}::test_lines_do_not_jump_while_figures_waver",),
    ),
    Edit(
        "who-has-a-line-keeps-it-for-good",
        f"{SERVICE}/ranking.py::Ranking._score",
        "held is not None and held / HELD_WITHIN <= score <= held * HELD_WITHIN",
        "held is not None",
        (f"{RANKING}::test_a_problem_that_becomes_much_worse_moves_to_the_top",),
    ),
    Edit(
        "unknown-backlog-is-small",
        f"{SERVICE}/ranking.py::harm",
        "10_000 if problem.waiting is None",
        "0 if problem.waiting is None",
        (f"{RANKING}::test_errors_backlog_growth_and_age_harm_and_delays_do_not",),
    ),
    Edit(
        "unknown-part-counts-nothing",
        f"{SERVICE}/ranking.py::_problem",
        "sum(known) if len(known) == len(parts) else None",
        "sum(known)",
        (f"{RANKING}::test_partitions_of_a_subscription_are_one_problem",),
    ),
    Edit(
        "publishing-goes-on-while-any-bookie-is-writable",
        f"{SERVICE}/quorums.py::Publishing.is_stopped",
        "self.writable < self.need.ack_quorum",
        "self.writable < 1",
        (f"{BOARD}::test_that_nothing_can_be_published_is_the_first_of_all",),
    ),
    Edit(
        "the-next-bookie-is-not-the-last",
        f"{SERVICE}/quorums.py::Publishing.is_last",
        "self.writable - 1 < self.need.ack_quorum",
        "False",
        (f"{BOARD}::test_that_nothing_can_be_published_is_the_first_of_all",),
    ),
    Edit(
        "a-late-bookie-is-gone",
        f"{SERVICE}/quorums.py::publishing",
        'bookie["state"] == "down"',
        'bookie["state"] in ("down", "slow")',
        (f"{BOARD}::test_a_bookie_that_is_late_still_counts",),
    ),
    Edit(
        "who-left-with-others-is-a-problem-of-its-own",
        f"{SERVICE}/board.py::Board._belongs_to_outage",
        "return not self._memory.existed_at(finding, outage.at - CLOCKS_MS)",
        "return False",
        (f"{BOARD}::test_clients_that_left_together_are_one_problem",),
    ),
    Edit(
        "who-never-comes-back-is-no-problem",
        f"{SERVICE}/outages.py::Outages.update",
        "or now_ms - event.at > KEPT_MS",
        "",
        (f"{BOARD}::test_clients_that_stay_away_are_problems_of_their_own_after_ten_minutes",),
    ),
    Edit(
        "deleting-is-advised-after-an-outage",
        f"{SERVICE}/outages.py::Outages.is_recent",
        "now_ms - self._quiet_since < KEPT_MS",
        "False",
        (f"{BOARD}::test_clients_that_left_together_are_one_problem",),
    ),
    Edit(
        "a-problem-begins-anew-where-its-topic-moves",
        f"{SERVICE}/memory.py::Memory.dated",
        "before.cause != finding.cause",
        "True",
        (f"{BOARD}::test_clients_that_left_together_are_one_problem",),
    ),
    Edit(
        "a-consumer-that-was-there-is-forgotten",
        f"{SERVICE}/memory.py::Memory.dated",
        "elif finding.evidence.get(ended):",
        "elif False:",
        (f"{BOARD}::test_a_consumer_that_was_there_meanwhile_ends_what_was_before",),
    ),
    Edit(
        "live-without-a-broker",
        "gateway/services/collection/followed_brokers.py::FollowedBrokers.known_until",
        "return [last_seen]",
        "return []",
        (
            "unit/gateway/services/collection/test_collector.py::test_numbers_stay_those_of_the_last_broker_when_none_is_registered",
        ),
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
        "sessions-never-end",
        f"{HEALTH}/hops.py::Hops._without_store",
        "if away_ms < self.session_ms:",
        "if True:",
        (f"{HOPS}::test_advice_holds_at_the_time_and_with_the_other_hops",),
    ),
    Edit(
        "a-growing-hot-key-is-well-for-a-moment",
        f"{CAUSES}::Watch._is_slow",
        "is_reported = self.cause in _LAGGING",
        "is_reported = self.cause in (LagCause.SLOW, LagCause.RATE_LIMIT)",
        (f"{CAUSES_TEST}::test_a_growing_hot_key_is_reported_without_a_break",),
    ),
    Edit(
        "a-cause-that-returns-is-new",
        f"{CAUSES}::Watch._report",
        "self.since_s = since_s",
        "pass",
        (f"{CAUSES_TEST}::test_a_cause_reported_again_soon_keeps_its_beginning",),
    ),
    Edit(
        "a-page-gives-up-on-a-part-that-is-late",
        "gateway/services/collection/collector.py::Collector.read",
        "self.blame(topic, late=False)",
        "self.blame(topic)",
        (
            "unit/gateway/services/collection/test_collector.py::test_a_page_waits_for_a_part_that_is_late_and_not_for_one_that_is_down",
        ),
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
        "a-broker-cannot-be-started-by-its-id",
        "gateway/standalone/supervisor.py::Supervisor._find",
        'if "pulsar" in child.spec.ports',
        "if False",
        (
            "unit/gateway/standalone/test_supervisor.py::test_a_broker_is_found_by_the_id_it_registers_with",
        ),
    ),
    Edit(
        "what-falls-behind-began-when-its-topic-moved",
        "gateway/services/attention/memory.py::Memory.dated",
        "finding.since_ms - seen_ms > RETURNS_MS",
        "True",
        (f"{BOARD}::test_a_subscription_that_falls_behind_did_so_before_its_topic_moved",),
    ),
    Edit(
        "what-was-found-at-loading-began-then",
        "gateway/services/attention/memory.py::_judged",
        "finding.since_ms - loaded_ms > RETURNS_MS",
        "True",
        (f"{BOARD}::test_what_its_broker_found_shortly_after_loading_may_be_older",),
    ),
    Edit(
        "a-topic-at-rest-that-was-consumed-rests-on",
        "gateway/services/attention/memory.py::Memory.recalled_at_rest",
        "finding.backlog == backlog",
        "True",
        (f"{BOARD}::test_a_topic_at_rest_keeps_its_begin_across_a_restart_without_consumers",),
    ),
    Edit(
        "when-problems-began-is-forgotten",
        "gateway/services/history/recorder.py::Recorder._finish",
        "file.write_causes(changed, gone)",
        "None",
        ("unit/gateway/services/test_history.py::test_the_recorder_keeps_when_problems_began",),
    ),
)
