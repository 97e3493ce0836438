"""Personal data: the fields, keys and properties that look like it."""

from spark_jobs.analysis import Analysis, AnalysisTarget
from spark_jobs.jobs.kit.declared import LAST_ENTRIES, TOPIC, parameters_of

PERSONAL_DATA = Analysis(
    name="personal-data",
    title="Personal data",
    question="Which fields, keys and properties of the messages look like personal data?",
    targets=(AnalysisTarget.TOPIC,),
    parameters=parameters_of({"topic": TOPIC, "last_entries": LAST_ENTRIES}),
    job=f"{__name__}.job",
)
