"""The data pipeline on Spark: a Java and a session to run it on, the data source `goqueue`, pipelines and jobs."""
