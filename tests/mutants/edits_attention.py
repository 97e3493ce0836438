"""Mistakes in what needs attention: causes as brokers find them, which come first, and what nothing found means."""

from tests.mutants.edit import Edit

BOARD = "unit/gateway/services/attention/test_board.py"
CAUSES = "engine/broker/administration/lag_causes.py"
CAUSES_TEST = "unit/broker/administration/test_lag_causes.py"
FINDINGS = "unit/gateway/services/attention/test_findings.py"
RANKING = "unit/gateway/services/attention/test_ranking.py"
SERVICE = "gateway/services/attention"

EDITS = (
    Edit(
        "cause-said-at-once",
        f"{CAUSES}::Watch._say",
        "at_s - self._left_s >= self._hold_s(seen, cause)",
        "True",
        (f"{CAUSES_TEST}::test_a_consumer_that_is_started_again_is_no_lag",),
    ),
    Edit(
        "cause-unsaid-at-once",
        f"{CAUSES}::Watch._say",
        "at_s - self._other_s >= LEAVE_S",
        "True",
        (f"{CAUSES_TEST}::test_a_cause_stays_for_a_while_when_it_is_gone_and_comes_back",),
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
        f"{SERVICE}/board.py::Board.found",
        "now_ms - since >= SETTLED_MS",
        "now_ms >= since",
        (f"{BOARD}::test_nothing_is_found_and_that_is_known",),
    ),
    Edit(
        "all-is-well-though-a-broker-did-not-tell",
        f"{SERVICE}/board.py::Board.found",
        "since = self._since if self._whole else None",
        "since = self._since",
        (f"{BOARD}::test_nothing_found_says_nothing_before_all_were_looked_at",),
    ),
    Edit(
        "a-topic-that-moves-is-well",
        f"{SERVICE}/board.py::Board.round",
        "self._moves, self._since = self._findings.moves, None",
        "self._moves = self._findings.moves",
        (f"{BOARD}::test_a_topic_that_moves_is_looked_at_anew",),
    ),
    Edit(
        "at-rest-and-loaded-is-well",
        f"{SERVICE}/board.py::Board._at_rest",
        "self._since = None",
        "pass",
        (f"{BOARD}::test_a_topic_that_no_broker_has_and_that_holds_a_backlog",),
    ),
    Edit(
        "what-waits-for-its-time-needs-attention",
        f"{SERVICE}/board.py::Board._sort_topics",
        'if one.severity != "info":',
        "if True:",
        (f"{BOARD}::test_the_list_knows_the_worst_cause_of_a_topic",),
    ),
    Edit(
        "a-list-that-goes-on-takes-away",
        f"{SERVICE}/findings.py::Findings.hear",
        'if not answer["more"]:',
        "if True:",
        (f"{FINDINGS}::test_what_a_whole_list_does_not_name_is_gone",),
    ),
    Edit(
        "the-broker-that-had-it-takes-it-away",
        f"{SERVICE}/findings.py::Findings._leave",
        "if row is not None and self._owner.get(topic) == broker:",
        "if row is not None and topic in self._owner:",
        (f"{FINDINGS}::test_a_topic_that_moves_counts_where_it_was_told_last",),
    ),
    Edit(
        "age-before-backlog",
        f"{SERVICE}/ranking.py",
        "AGE_POWER = 0.25",
        "AGE_POWER = 1.0",
        (f"{RANKING}::test_one_problem_stands_out_of_small_ones_whatever_their_age",),
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
        (f"{RANKING}::test_who_becomes_much_worse_goes_to_the_top",),
    ),
    Edit(
        "unknown-backlog-is-small",
        f"{SERVICE}/ranking.py::harm",
        "10_000 if problem.backlog is None",
        "0 if problem.backlog is None",
        (f"{RANKING}::test_errors_backlog_growth_and_age_harm_and_delays_do_not",),
    ),
    Edit(
        "unknown-part-counts-nothing",
        f"{SERVICE}/ranking.py::_problem",
        "sum(known) if len(known) == len(parts) else None",
        "sum(known)",
        (f"{RANKING}::test_partitions_of_a_subscription_are_one_problem",),
    ),
)
