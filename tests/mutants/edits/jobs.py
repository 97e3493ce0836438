"""Mistakes in runs of analyses, the standalone supervisor, and how programs start."""

from tests.mutants.edit import Edit

FOLDERS = "unit/gateway/standalone/test_folders.py"
LEFTOVERS = "unit/gateway/standalone/test_leftovers.py"
SILENT = "unit/gateway/jobs/test_silent_redis.py"
SUPERVISOR = "unit/gateway/standalone/test_supervisor.py"
TRIMMED = "unit/spark_jobs/test_trimmed.py"
WORKER = "unit/gateway/jobs/test_worker.py"

EDITS = (
    Edit(
        "whoever-logs-there-is-a-leftover",
        "gateway/standalone/leftovers.py::leftovers",
        "output.parent == log_dir and PART_LOG.fullmatch(output.name)",
        "output.parent == log_dir",
        (f"{LEFTOVERS}::test_a_program_that_writes_into_the_logs_folder_is_no_leftover",),
    ),
    Edit(
        "a-start-ends-itself",
        "gateway/standalone/leftovers.py::leftovers",
        "is_part and int(folder.name) not in own",
        "is_part",
        (
            f"{LEFTOVERS}::test_a_supervisor_whose_output_goes_to_the_logs_folder_does_not_end_itself",
        ),
    ),
    Edit(
        "a-start-of-a-run-waits-for-redis",
        "gateway/jobs/services.py::in_background",
        "_sender.submit(run)",
        "run()",
        (f"{SILENT}::test_a_run_is_taken_at_once_though_redis_is_silent",),
        holds="J4",
    ),
    Edit(
        "every-console-that-opens-asks-redis",
        "gateway/jobs/services.py::Warming.request",
        "self._sending.acquire(blocking=False)",
        "True",
        (f"{SILENT}::test_consoles_that_open_do_not_wait_for_redis_and_request_once",),
    ),
    Edit(
        "telling-the-workers-takes-as-long-as-redis-likes",
        "gateway/jobs/services.py::_send",
        '"socket_timeout": SEND_S',
        '"socket_timeout": None',
        (f"{SILENT}::test_notifying_the_workers_has_a_time_out",),
    ),
    Edit(
        "a-cancelled-run-that-hangs-keeps-its-slot",
        "gateway/jobs/tasks.py::_Heartbeat._stop_attempt",
        "now_s - self._unwanted_s > END_PATIENCE_S",
        "False",
        (f"{WORKER}::test_a_cancelled_run_that_hangs_gives_its_slot_back",),
        holds="J6",
    ),
    Edit(
        "a-spark-that-hangs-is-waited-for-for-ever",
        "gateway/jobs/tasks.py::_Heartbeat._is_silent",
        "time.monotonic() - self._sign_of_life_s <= SILENT_S",
        "True",
        (f"{WORKER}::test_a_run_without_a_sign_of_life_from_spark_fails_and_gives_its_slot_back",),
        holds="J6",
    ),
    Edit(
        "sparks-own-signs-of-life-do-not-count",
        "gateway/jobs/tasks.py::_Progress.sign",
        "self._heartbeat.note_sign_of_life()",
        "pass",
        (f"{WORKER}::test_a_long_run_whose_progress_spark_reports_continues",),
    ),
    Edit(
        "a-run-whose-worker-is-gone-looks-at-work",
        "gateway/jobs/services.py::stage_of",
        "silent_ms < SILENT_MS",
        "True",
        (
            "unit/gateway/jobs/test_recovery.py::"
            "test_a_run_whose_worker_is_silent_shows_it_until_it_is_retried",
        ),
    ),
    Edit(
        "a-trimmed-ledger-fails-the-analysis",
        "spark_jobs/pulsar_source/batch.py::_read",
        "await is_listed(store, ledgers, options, ledger_range)",
        "True",
        (f"{TRIMMED}::test_a_ledger_that_is_trimmed_after_planning_is_named_as_that",),
    ),
    Edit(
        "a-lost-ledger-is-taken-for-a-trimmed-one",
        "spark_jobs/pulsar_source/batch.py::_read",
        "await is_listed(store, ledgers, options, ledger_range)",
        "False",
        (f"{TRIMMED}::test_a_ledger_that_is_lost_is_no_trimmed_one",),
    ),
    Edit(
        "a-profile-hides-what-was-trimmed",
        "spark_jobs/jobs/kit/reading.py::cells_of_range",
        "gathered.add(cells(TRIMMED, at=np.array([0]), count=error.entries))",
        "assert error.entries",
        (f"{TRIMMED}::test_a_profile_counts_what_was_trimmed_and_all_else",),
    ),
    Edit(
        "rows-of-a-trimmed-range-are-left-out-silently",
        "spark_jobs/pulsar_source/batch.py::read_range",
        "options.fail_on_data_loss",
        "False",
        (f"{TRIMMED}::test_rows_of_a_trimmed_range_fail_unless_the_option_permits_it",),
    ),
    Edit(
        "a-redis-that-loads-is-ready",
        "gateway/standalone/supervisor.py::is_ready",
        r'await reader.readline() == b"+PONG\r\n"',
        'await reader.readline() != b""',
        (f"{SUPERVISOR}::test_a_redis_that_loads_its_file_is_not_ready",),
    ),
    Edit(
        "a-worker-of-before-makes-this-one-ready",
        "gateway/standalone/supervisor.py::is_ready",
        r'await reader.readline() == f"{pid}\r\n".encode()',
        r'await reader.readline() != b"$-1\r\n"',
        (f"{SUPERVISOR}::test_a_worker_is_ready_when_that_very_process_takes_work",),
    ),
    Edit(
        "an-instance-waits-for-what-only-analyses-need",
        "gateway/standalone/supervisor.py::Supervisor._report_progress",
        "all(child.spec.serves for child in starting)",
        "not starting",
        (f"{SUPERVISOR}::test_an_instance_without_a_part_of_analyses_is_ready_and_names_it",),
    ),
    Edit(
        "zookeeper-keeps-its-data-beside-the-data-folder",
        "gateway/standalone/plan.py::_property",
        "0x20 < code < 0x7F and code != 0x5C",
        "True",
        (f"{FOLDERS}::test_zookeeper_reads_the_path_of_its_data_as_it_is",),
    ),
    Edit(
        "metadata-of-a-misread-path-stays-behind",
        "gateway/standalone/cli.py::_move_misplaced_data",
        "misplaced.is_dir()",
        "False",
        (f"{FOLDERS}::test_data_that_zookeeper_kept_under_a_misread_path_is_moved_back",),
    ),
    Edit(
        "files-are-everybodys-to-read",
        "engine/base/log.py::keep_private",
        "os.umask(OTHERS)",
        "os.umask(0o022)",
        ("unit/test_private_files.py::test_files_that_a_program_creates_are_private_to_its_user",),
    ),
    Edit(
        "a-token-that-differs-is-an-error-of-ours",
        "engine/rpc/client.py::_result",
        "status == 401",
        "status == 0",
        (
            "unit/rpc/test_client.py::"
            "test_a_token_that_the_broker_rejects_is_reported_with_the_setting_to_correct",
        ),
    ),
    Edit(
        "a-worker-is-not-seen-again-after-an-unexpected-error",
        "gateway/jobs/tasks.py::_renew_worker_key_for_ever",
        "except Exception as error:",
        "except (RedisError, OSError) as error:",
        (
            "unit/gateway/jobs/test_worker_key.py::"
            "test_a_worker_is_seen_again_and_each_episode_is_logged_once",
        ),
    ),
)
