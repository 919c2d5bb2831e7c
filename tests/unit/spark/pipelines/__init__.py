"""Unit tests of `goqueue.spark.pipelines`."""
