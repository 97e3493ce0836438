"""Field drift: which fields appear, go missing or change their type, and who began it."""

from spark_jobs.analysis import Analysis, AnalysisTarget
from spark_jobs.jobs.kit.declared import LAST_ENTRIES, TOPIC, parameters_of

FIELD_DRIFT = Analysis(
    name="field-drift",
    title="Field drift",
    question="Which fields of the messages appear, go missing or change their type, since when and by which producer?",
    targets=(AnalysisTarget.TOPIC,),
    parameters=parameters_of({"topic": TOPIC, "last_entries": LAST_ENTRIES}),
    job=f"{__name__}.job",
)
