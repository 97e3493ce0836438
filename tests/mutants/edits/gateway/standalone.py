"""Mistakes in the standalone supervisor and in how programs start."""

from tests.mutants.edit import Edit

LEFTOVERS = "unit/gateway/standalone/test_leftovers.py"
SUPERVISOR = "unit/gateway/standalone/test_supervisor.py"
READINESS = "unit/gateway/standalone/children/test_readiness.py"
SECURE = "unit/gateway/standalone/test_secure.py"
MEMORY = "unit/gateway/standalone/test_memory_folder.py"
PLAN = "unit/gateway/standalone/test_plan.py"
FOLDERS = "unit/gateway/standalone/test_folders.py"

EDITS = (
    Edit(
        "stop-under-a-spawn-not-told",
        "gateway/standalone/children/child_process.py::ChildProcess._run_once",
        """
        if self._stop_requested:
            self._terminate()
        """,
        "pass",
        (
            "unit/gateway/standalone/children/test_orders.py::test_the_last_order_holds_at_every_turn",
        ),
    ),
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
        "a-redis-that-loads-is-ready",
        "gateway/standalone/children/readiness.py::is_ready",
        r'await reader.readline() == b"+PONG\r\n"',
        'await reader.readline() != b""',
        (f"{READINESS}::test_a_redis_that_loads_its_file_is_not_ready",),
    ),
    Edit(
        "a-worker-of-before-makes-this-one-ready",
        "gateway/standalone/children/readiness.py::is_ready",
        r'await reader.readline() == f"{pid}\r\n".encode()',
        r'await reader.readline() != b"$-1\r\n"',
        (f"{READINESS}::test_a_worker_is_ready_when_its_own_process_accepts_work",),
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
        "files-are-everybodys-to-read",
        "engine/base/log.py::keep_private",
        "os.umask(OTHERS)",
        "os.umask(0o022)",
        ("unit/test_private_files.py::test_files_that_a_program_creates_are_private_to_its_user",),
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
        "worker-of-a-secure-instance-has-no-login",
        "gateway/standalone/plan.py::_worker",
        "**options.secure.of_gateway(),",
        "",
        (f"{SECURE}::test_redis_and_spark_ask_for_a_secret_of_their_files",),
    ),
    Edit(
        "redis-of-a-secure-instance-serves-everyone",
        "gateway/standalone/plan.py::children",
        "redis_config = (str(options.secure.redis_config),)",
        "pass",
        (f"{SECURE}::test_redis_and_spark_ask_for_a_secret_of_their_files",),
    ),
    Edit(
        "spark-of-a-secure-instance-serves-everyone",
        "gateway/standalone/plan.py::_spark",
        "if options.secure else ()",
        "if False else ()",
        (f"{SECURE}::test_redis_and_spark_ask_for_a_secret_of_their_files",),
    ),
    Edit(
        "memory-of-an-instance-that-runs-is-removed",
        "gateway/standalone/memory_folder.py::remove_abandoned",
        "fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)",
        "pass",
        (f"{MEMORY}::test_only_folders_of_instances_that_do_not_run_are_removed",),
    ),
    Edit(
        "packages-of-others-are-imported-first",
        "gateway/standalone/plan.py::python_path",
        'f"{ROOT}{os.pathsep}{given}"',
        'f"{given}{os.pathsep}{ROOT}"',
        (f"{PLAN}::test_children_import_our_packages_before_others_of_the_same_name",),
    ),
    Edit(
        "an-installed-instance-writes-beside-its-packages",
        "engine/base/settings.py::default_data_folder",
        "if not is_installed(packages):",
        "if True:",
        (
            "unit/base/test_settings.py::test_an_installed_wheel_keeps_its_data_where_the_user_may_write",
        ),
    ),
)
