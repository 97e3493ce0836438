"""Mistakes in the balance of load."""

from tests.mutants.edit import Edit

PLAN = "unit/ownership/load/test_plan.py"
DRAIN = "unit/broker/control/load/test_broker_drain.py"
MARKS = "unit/ownership/load/test_draining.py"
LEADER = "unit/broker/control/load/test_leader.py"
REPORTING = "unit/broker/control/load/test_reporting.py"

EDITS = (
    Edit(
        "moves-without-a-look-at-the-leader",
        "engine/broker/control/load/leader.py::LoadLeader._move_one",
        "if not await self._registration.leads():",
        "if False:",
        (f"{LEADER}::test_a_leader_that_is_replaced_between_two_moves_asks_for_no_more",),
        "L1",
    ),
    Edit(
        "moves-stored-without-compare",
        "engine/broker/control/load/leader.py::LoadLeader._carry_out",
        "if written is None:",
        "if False:",
        (f"{LEADER}::test_a_leader_whose_record_was_replaced_moves_nothing",),
        "L1",
    ),
    Edit(
        "bundle-moves-again",
        "engine/ownership/load/pool.py::Pool._candidates",
        "if bundle in self._moved and self._home_of(bundle) in (None, source):",
        "if False:",
        (f"{PLAN}::test_no_second_cycle_and_no_second_move_of_a_bundle_in_their_quiet_times",),
        "L2",
    ),
    Edit(
        "moves-forgotten-by-the-next-leader",
        "engine/ownership/load/recent_moves.py::RecentMoves.recent",
        "return Recent(moved, homes, times, self.cycle_ms, imbalances)",
        "return Recent(imbalances=imbalances)",
        (f"{LEADER}::test_the_next_leader_knows_the_moves_of_the_former_one",),
        "L2",
    ),
    Edit(
        "negative-load-counts",
        "engine/ownership/load/report.py::_Reader._number",
        "if not math.isfinite(number) or number < 0:",
        "if not math.isfinite(number):",
        ("unit/ownership/load/test_report.py::test_a_load_that_cannot_be_true_is_unknown",),
        "L3",
    ),
    Edit(
        "old-report-counts",
        "engine/ownership/load/plan.py::unusable",
        "if age_ms > limits.report_age_max_ms:",
        "if False:",
        (f"{PLAN}::test_a_broker_with_an_unusable_report_takes_no_part",),
        "L3",
    ),
    Edit(
        "bundle-left-without-a-reason",
        "engine/ownership/load/pool.py::Pool._destination",
        'self._skip(bundle, "too large", self._too_large(source, destination, bundle, share))',
        "pass",
        (f"{PLAN}::test_a_bundle_that_would_only_move_the_problem_stays_and_says_what_helps",),
        "L4",
    ),
    Edit(
        "anti-affinity-shares-brokers",
        "engine/ownership/load/policies.py::_divide",
        "return [broker for unit in units[index::members] for broker in unit]",
        "return [broker for unit in units for broker in unit]",
        (
            "unit/ownership/load/test_policies.py::"
            "test_members_share_no_broker_while_there_are_enough",
        ),
        "L5",
    ),
    Edit(
        "a-moment-moves-bundles",
        "engine/ownership/load/plan.py::_Planner._is_due",
        "if not lasts:",
        "if False:",
        (f"{PLAN}::test_only_an_imbalance_that_lasts_moves_bundles",),
        "L6",
    ),
    Edit(
        "the-whole-difference-moves",
        "engine/ownership/load/pool.py::Pool._half",
        "return (self._loads[source] - load) / 2",
        "return 1.0",
        (f"{PLAN}::test_half_of_the_difference_moves_from_the_busiest_to_the_idlest_broker",),
        "L6",
    ),
    Edit(
        "unknown-load-is-crowded",
        "engine/ownership/placer.py::HashPlacer.order",
        "load is not None and load > limit",
        "load is None or load > limit",
        (
            "unit/ownership/test_placer.py::"
            "test_brokers_with_much_more_load_than_the_mean_come_last_and_unknown_loads_change_nothing",
        ),
        "L7",
    ),
    Edit(
        "idle-broker-receives-nothing",
        "engine/ownership/load/pool.py::Pool.imbalance",
        "if idle else",
        "if False else",
        (f"{PLAN}::test_a_broker_without_bundles_gets_some_although_the_spread_is_small",),
    ),
    Edit(
        "owner-is-never-called",
        "engine/broker/control/load/leader.py::LoadLeader._move_one",
        "return await self._move(transfer)",
        "return MOVED",
        (
            "unit/broker/control/load/test_several_brokers.py::"
            "test_a_broker_that_joins_receives_half_of_the_load_and_everything_is_explained",
        ),
        "L8",
    ),
    Edit(
        "registration-forgets-the-load",
        "engine/ownership/registration.py::BrokerRegistration._value",
        "self.record.encode(self._load)",
        "self.record.encode()",
        (f"{REPORTING}::test_after_the_end_of_a_session_the_next_registration_has_the_load",),
        "L9",
    ),
    Edit(
        "drained-broker-takes-bundles",
        "engine/ownership/load/policies.py::PlacementPolicies.places",
        "if not self.draining:",
        "if True:",
        (f"{DRAIN}::test_a_drained_broker_receives_no_bundle_until_its_drain_ends",),
        "L10",
    ),
    Edit(
        "bundle-is-moved-to-a-drained-broker",
        "engine/broker/control/assignment.py::BundleAssignment.check_destination",
        "if destination in await drain_marks(self._store):",
        "if False:",
        (f"{DRAIN}::test_a_drained_broker_receives_no_bundle_until_its_drain_ends",),
        "L10",
    ),
    Edit(
        "mark-leaves-a-bundle-without-a-place",
        "engine/ownership/load/policies.py::PlacementPolicies.places",
        "return self.isolation.places(namespace, staying) or self.isolation.places(\n"
        "            namespace, broker_ids\n        )",
        "return self.isolation.places(namespace, staying)",
        (f"{MARKS}::test_a_drained_broker_counts_as_absent_while_another_may_serve_a_bundle",),
        "L10",
    ),
    Edit(
        "last-broker-is-drained",
        "engine/ownership/load/draining.py::mark_draining",
        "if problem := obstacle(broker_id, marks, registered):",
        'if problem := "":',
        (f"{MARKS}::test_the_last_broker_cannot_be_drained",),
        "L10",
    ),
    Edit(
        "another-drain-than-the-previewed-one",
        "engine/broker/control/load/broker_drain.py::BrokerDrain.begin",
        "if set(owned) != destinations.keys():",
        "if False:",
        (f"{DRAIN}::test_only_the_previewed_drain_begins",),
        "L10",
    ),
    Edit(
        "bundle-returns-anywhere",
        "engine/ownership/load/pool.py::Pool._destination",
        "if bundle in self._moved:",
        "if False:",
        (
            f"{PLAN}::test_a_bundle_returns_to_the_broker_that_has_lost_it_by_its_end_and_to_no_other",
        ),
        "L2",
    ),
    Edit(
        "broker-is-filled-without-end",
        "engine/ownership/load/plan.py::_Planner._balance",
        "if self._fills_of(name) < limits.fills_max",
        "if True",
        (
            f"{PLAN}::"
            "test_a_broker_without_a_bundle_is_filled_at_the_second_check_and_nothing_else_moves",
        ),
        "L6",
    ),
)
