"""The families of all instances are on one page, each family once and together."""

from engine.functions.worker.answering.worker_metrics import merged


def page(instance: int) -> str:
    return (
        "# HELP pulsar_function_a A.\n# TYPE pulsar_function_a counter\n"
        f'pulsar_function_a{{instance_id="{instance}"}} 1\n'
        "# HELP pulsar_function_b B.\n# TYPE pulsar_function_b summary\n"
        f'pulsar_function_b_count{{instance_id="{instance}"}} 2\n'
    )


def test_samples_of_a_family_are_together_behind_one_description() -> None:
    assert merged([page(0), page(1)]).splitlines() == [
        "# HELP pulsar_function_a A.",
        "# TYPE pulsar_function_a counter",
        'pulsar_function_a{instance_id="0"} 1',
        'pulsar_function_a{instance_id="1"} 1',
        "# HELP pulsar_function_b B.",
        "# TYPE pulsar_function_b summary",
        'pulsar_function_b_count{instance_id="0"} 2',
        'pulsar_function_b_count{instance_id="1"} 2',
    ]


def test_without_instances_there_is_nothing() -> None:
    assert merged([]) == ""
