"""Read a topic as a table with Spark: pip install 'goqueue[spark]'."""

import os

from goqueue.spark.session import SessionRequest, start_session

spark = start_session(SessionRequest(name="events"))
events = (
    spark.read.format("goqueue")
    .option("kafka.bootstrap.servers", os.environ.get("GOQUEUE_BOOTSTRAP", "127.0.0.1:9092"))
    .option("subscribe", "events")
    .load()
)
events.selectExpr("CAST(key AS STRING) AS customer").groupBy("customer").count().orderBy("customer").show()
