#!/bin/sh
# The Spark Connect server of the workers, in an image with Spark: build it with EXTRAS=spark,postgres.
#
# It listens on loopback only. Workers run in the same network namespace, and present the token of SPARK_CONF.
set -eu

packages=$(python -c 'import magnetar; print(magnetar.ROOT)')
data=${MAGNETAR_DATA_DIR:-/var/lib/magnetar}
quick="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

export LC_ALL=C.UTF-8 PYTHONPATH="$packages" PYSPARK_PYTHON=/opt/magnetar/bin/python
export PYSPARK_DRIVER_PYTHON=/opt/magnetar/bin/python SPARK_LOCAL_IP=127.0.0.1
export SPARK_LOCAL_DIRS="${SPARK_LOCAL_DIRS:-/tmp/spark}" SPARK_LAUNCHER_OPTS="$quick"

# Jobs of one pool would wait for each other without this file.
cat > "$data/fairscheduler.xml" <<'END'
<?xml version="1.0"?>
<allocations>
  <pool name="default">
    <schedulingMode>FAIR</schedulingMode>
  </pool>
</allocations>
END

# The settings are those of an instance on one machine (gateway/standalone/plan.py).
exec python -m gateway.standalone.spark \
    --master "local[${SPARK_CORES:-2}]" \
    --class org.apache.spark.sql.connect.service.SparkConnectServer \
    --properties-file "${SPARK_CONF:-/run/secrets/magnetar/spark.conf}" \
    --conf spark.connect.grpc.binding.address=127.0.0.1 \
    --conf spark.connect.grpc.binding.port=15002 \
    --conf spark.driver.bindAddress=127.0.0.1 \
    --conf spark.driver.host=127.0.0.1 \
    --conf spark.ui.enabled=false \
    --conf "spark.sql.warehouse.dir=$data/spark/warehouse" \
    --conf "spark.driver.extraJavaOptions=$quick" \
    --conf spark.python.daemon.module=spark_jobs.daemon \
    --conf spark.connect.progress.reportInterval=200ms \
    --conf spark.connect.session.manager.defaultSessionTimeout=-1 \
    --conf spark.sql.python.filterPushdown.enabled=true \
    --conf spark.scheduler.mode=FAIR \
    --conf "spark.scheduler.allocation.file=file://$data/fairscheduler.xml" \
    --conf spark.sql.shuffle.partitions=4 \
    --conf "spark.driver.memory=${SPARK_MEMORY:-1024m}" \
    spark-internal
