"""What Spark finds by itself: every top-level module named `pyspark_*` with a `DefaultSource` is a data source.

If one of these modules cannot be imported, Spark gives up on all of them. So this one imports next to nothing; what a
read needs is imported when it is read.
"""

from goqueue.spark.source.data_source import GoQueueSource as DefaultSource

__all__ = ["DefaultSource"]
