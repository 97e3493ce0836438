"""The tests of every source can be found by name: a test file of the same name at the same place, a test that imports
it, an edit of the gate that breaks it under a named test, or a row of ``THROUGH``."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.mutants.edits import EDITS
from tests.support.import_graph import ROOT, graph, sources

THROUGH = {
    "bookie/metrics.py": "unit/bookie/test_server.py",
    "bookie/opening.py": "unit/bookie/test_directories.py",
    "bookie/requests/requests.py": "unit/bookie/test_answers.py",
    "engine/backup/cluster_backup.py": "unit/backup/test_saving.py",
    "engine/backup/contents.py": "unit/backup/test_interrupted_backups.py",
    "engine/backup/references.py": "unit/backup/test_saving.py",
    "engine/broker/administration/operations/cursors.py": "unit/broker/administration/previews/test_cursor_changes.py",
    "engine/broker/administration/operations/dynamic_settings.py": "unit/broker/control/test_dynamic_settings.py",
    "engine/packages/package_handlers.py": "unit/functions/packages/test_package_client.py",
    "engine/broker/administration/operations/rows.py": "unit/gateway/test_non_persistent.py",
    "engine/broker/administration/operations/statistics.py": "unit/gateway/test_non_persistent.py",
    "engine/broker/administration/tiers/tier_operations.py": "unit/admin_ui/tiers/test_services.py",
    "engine/broker/administration/transaction_metrics.py": "unit/broker/administration/operations/test_transactions.py",
    "engine/broker/dispatch/delays/alarm.py": "unit/broker/dispatch/delays/test_delayed.py",
    "engine/broker/dispatch/dispatcher.py": "unit/broker/dispatch/test_dispatch.py",
    "engine/broker/dispatch/dropping.py": "unit/broker/topics/test_ephemeral.py",
    "engine/broker/dispatch/sharing/parking.py": "unit/broker/dispatch/test_parked_chunks.py",
    "engine/broker/topic_table.py": "unit/broker/topics/test_registry.py",
    "engine/broker/topics/lifecycle/topic_counters.py": "unit/broker/administration/test_metrics_page.py",
    "engine/broker/topics/subscriptions/subscription_dispatch.py": "unit/broker/dispatch/test_throttle.py",
    "engine/broker/topics/transactional/transaction_stage.py": "unit/broker/transactions/buffer/test_topic_buffer.py",
    "engine/broker/topics/subscriptions/unacked_subscription.py": "unit/broker/compaction/test_topic_compaction.py",
    "engine/broker/transactions/log_stats.py": "unit/broker/administration/operations/test_transactions.py",
    "engine/broker/transactions/coordinator/coordinators.py": "unit/broker/connection/test_transactions.py",
    "engine/functions/definitions/config_fields.py": "unit/functions/definitions/test_configs.py",
    "engine/functions/definitions/ends.py": "unit/functions/definitions/test_configs.py",
    "engine/functions/definitions/function_config.py": "unit/functions/definitions/test_configs.py",
    "engine/functions/definitions/sink_config.py": "unit/functions/definitions/test_configs.py",
    "engine/functions/definitions/source_config.py": "unit/functions/definitions/test_configs.py",
    "engine/functions/worker/answering/function_operations.py": "unit/functions/worker/test_worker_service.py",
    "engine/functions/worker/answering/cluster_operations.py": "unit/functions/worker/apaches/test_shared_cluster.py",
    "engine/functions/worker/answering/instance_calls.py": "unit/functions/worker/apaches/test_shared_cluster.py",
    "engine/functions/worker/answering/leader_routing.py": "unit/functions/worker/apaches/test_shared_cluster.py",
    "engine/functions/worker/answering/held_operations.py": "unit/functions/worker/test_worker_service.py",
    "engine/functions/worker/joining.py": "unit/functions/worker/test_worker_service.py",
    "engine/functions/worker/placing/followed_topics.py": "unit/functions/worker/test_worker_service.py",
    "engine/functions/worker/placing/leadership.py": "unit/functions/worker/test_worker_service.py",
    "engine/functions/worker/placing/leading.py": "unit/functions/worker/test_worker_service.py",
    "engine/functions/worker/placing/topic_log.py": "unit/functions/worker/test_worker_service.py",
    "engine/functions/worker/placing/worker_presence.py": "unit/functions/worker/test_worker_service.py",
    "engine/functions/worker/running/instances.py": "unit/functions/worker/test_worker_service.py",
    "engine/functions/instance/connecting.py": "integration/functions/test_failing_connectors.py",
    "engine/functions/instance/failed_messages.py": "integration/functions/test_failing_connectors.py",
    "engine/functions/instance/log_output.py": "integration/functions/test_instances.py",
    "engine/functions/instance/result_publishing.py": "integration/functions/test_instances.py",
    "engine/functions/instance/state/function_registers.py": "integration/functions/test_instances.py",
    "engine/functions/instance/user/official.py": "integration/functions/test_instances.py",
    "engine/functions/connectors/files/chunk_log.py": "unit/functions/connectors/files/test_files_source.py",
    "engine/functions/connectors/objects/bundle_formats.py": "unit/functions/connectors/objects/test_objects.py",
    "engine/functions/connectors/objects/bundling_sink.py": "unit/functions/connectors/files/test_files_sink.py",
    "engine/functions/connectors/postgres/capture_slot.py": "unit/functions/connectors/postgres/test_capture.py",
    "engine/functions/connectors/postgres/change_values.py": "unit/functions/connectors/postgres/test_capture.py",
    "engine/functions/connectors/postgres/replication_link.py": "unit/functions/connectors/postgres/test_capture.py",
    "engine/functions/connectors/postgres/postgres_link.py": "unit/functions/connectors/postgres/test_rows_sink.py",
    "engine/functions/connectors/redis_server/redis_link.py": "unit/functions/connectors/redis_server/test_sink.py",
    "engine/ledger/cluster/cluster.py": "unit/ledger/test_faulty_bookies.py",
    "engine/ledger/cluster/links.py": "unit/ledger/test_faulty_bookies.py",
    "engine/ledger/cluster/registrations.py": "unit/ledger/reading/test_reader.py",
    "engine/ledger/reading/batch_read.py": "unit/ledger/reading/test_reader.py",
    "engine/ledger/reading/read_op.py": "unit/ledger/reading/test_reader.py",
    "engine/ledger/writing/add_watch.py": "unit/ledger/writing/test_writer_bounds.py",
    "engine/ledger/writing/explicit_lac_writer.py": "unit/ledger/reading/test_explicit_lac.py",
    "engine/managed/reading/entries.py": "unit/managed/reading/test_backlog.py",
    "engine/managed/shared.py": "unit/managed/test_loading.py",
    "engine/metadata/server/serving/four_letter_words.py": "unit/metadata/server/test_server.py",
    "engine/metadata/server/serving/status_pages.py": "unit/metadata/server/test_status_pages.py",
    "engine/proxy/pages.py": "unit/access/test_proxy_matrix.py",
    "engine/proxy/proxy_metrics.py": "unit/proxy/test_lookups.py",
    "engine/schema/values/avro_defaults.py": "unit/schema/values/test_avro_values.py",
    "engine/schema/values/avro_logical.py": "unit/schema/values/test_avro_values.py",
    "engine/schema/values/avro_writing.py": "unit/schema/test_encoding.py",
    "engine/schema/values/json_values.py": "unit/schema/test_decoding.py",
    "engine/schema/values/primitive_values.py": "unit/schema/test_decoding.py",
    "engine/schema/values/primitive_writing.py": "unit/schema/test_encoding.py",
    "engine/schema/values/shown.py": "unit/schema/test_decoding.py",
    "engine/tenancy/geo/shadow_checks.py": "unit/broker/administration/operations/test_shadow_topics.py",
    "engine/tenancy/policies/forms.py": "unit/tenancy/policies/test_table.py",
    "engine/tenancy/policies/limit_rows.py": "unit/tenancy/policies/test_table.py",
    "engine/tenancy/policies/rate_rows.py": "unit/tenancy/policies/test_table.py",
    "engine/tenancy/policies/schema_rows.py": "unit/tenancy/policies/test_table.py",
    "engine/tenancy/policies/storage_rows.py": "unit/tenancy/policies/test_table.py",
    "engine/tenancy/policies/cluster_rows.py": "unit/tenancy/policies/test_table.py",
}
"""Sources whose tests use them indirectly, with that test."""


def path_of(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


def does_something(tree: ast.Module) -> bool:
    """Return whether a module has statements, beside names, data classes and protocols."""
    bodies = [
        n.body for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return any(
        not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for body in bodies
        for statement in body
    )


def untested_by_name() -> Iterator[str]:
    tests = [module for module in sources() if module.rpartition(".")[2].startswith("test_")]
    imported = {used for test in tests for used in graph()[test]}
    edited = {edit.file for edit in EDITS}
    for module, tree in sources().items():
        package, _, name = module.rpartition(".")
        if name == "__main__":  # it starts a process: tests of whole processes do
            continue
        if package.partition(".")[0] not in ("engine", "bookie") or not does_something(tree):
            continue
        place = Path(*package.split(".")[package.startswith("engine") :])
        mirrored = ROOT / "tests/unit" / place / f"test_{name}.py"
        if not mirrored.exists() and module not in imported and path_of(module) not in edited:
            yield path_of(module)


def test_every_source_is_found_from_its_tests() -> None:
    assert sorted(untested_by_name()) == sorted(THROUGH)


def test_a_test_named_for_a_source_uses_it() -> None:
    for source, test in THROUGH.items():
        module = source.removesuffix(".py").replace("/", ".")
        start = f"tests/{test}".removesuffix(".py").replace("/", ".")
        imported, ahead = {start}, [start]
        while ahead:
            new = graph()[ahead.pop()] - imported
            imported |= new
            ahead += new
        assert module in imported, f"{test} has nothing to do with {source}"
