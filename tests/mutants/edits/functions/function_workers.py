"""Edits of functions."""

from tests.mutants.edit import Edit

WORKER = "unit/functions/worker"
INSTANCE = "unit/functions/instance"

EDITS = (
    Edit(
        "functions-have-several-writers",
        "engine/functions/worker/placing/exclusive_writer.py::ExclusiveWriter.open",
        "access_mode=EXCLUSIVE_ACCESS,",
        "access_mode=None,",
        (f"{WORKER}/placing/test_exclusive_writer.py::test_a_topic_has_one_writer_at_a_time",),
        "F1",
    ),
    Edit(
        "instance-runs-without-its-lease",
        "engine/functions/worker/running/instance_lease.py::InstanceLease.acquire",
        "if await claim(self._store, self._path, self._value):",
        "if True:",
        (f"{WORKER}/running/test_instance_lease.py::test_one_worker_has_the_lease_at_a_time",),
        "F2",
    ),
    Edit(
        "suspended-instance-runs-on-behind-its-lease",
        "engine/functions/instance/process_lease.py::ProcessLease.renew",
        "signal.setitimer(signal.ITIMER_REAL, remaining_s)",
        "pass",
        (
            f"{INSTANCE}/test_process_lease.py::test_code_that_keeps_pythons_lock_does_not_hold_it_up",
            f"{INSTANCE}/test_process_lease.py::test_a_process_that_was_suspended_beyond_its_lease_never_runs_again",
        ),
        "F2",
    ),
    Edit(
        "refusals-of-apaches-leader-are-success",
        "engine/functions/worker/apaches/apache_worker_client.py::ApacheWorkerClient._call",
        "if 200 <= answer.status < 300:",
        "if answer.status:",
        (
            f"{WORKER}/apaches/test_shared_cluster.py::test_no_change_is_reported_that_apaches_leader_has_not_confirmed",
        ),
        "F1",
    ),
    Edit(
        "instances-of-lost-workers-stay-there",
        "engine/functions/worker/placing/scheduling.py::schedule",
        "if assignment is None or assignment.workerId not in workers.kept:",
        "if assignment is None:",
        (
            f"{WORKER}/test_worker_service.py::test_instances_of_a_stopped_worker_start_on_the_others",
        ),
        "F3",
    ),
    Edit(
        "functions-of-superusers-are-superusers",
        "engine/functions/worker/running/function_tokens.py::role_for",
        "if caller and caller not in superusers:",
        "if caller:",
        (
            f"{WORKER}/running/test_function_tokens.py::test_the_role_is_the_creators_unless_that_is_a_superuser",
        ),
        "F4",
    ),
    Edit(
        "updates-that-keep-the-role",
        "engine/functions/worker/running/function_tokens.py::role_after_update",
        "return role if not caller or caller in superusers else caller",
        "return role",
        (
            "unit/functions/worker/running/test_function_tokens.py"
            "::test_an_update_gives_a_function_the_role_of_its_caller_unless_that_is_a_superuser",
        ),
        "F4",
    ),
)
