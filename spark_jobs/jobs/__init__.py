"""The analyses by id. Each is ``run(spark, parameters, context, *, progress, output_dir) -> result``."""

from spark_jobs.jobs import topic_profile

JOBS = {"topic-profile": topic_profile.run}
