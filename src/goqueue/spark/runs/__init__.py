"""What pipelines and jobs share when a command runs them: sessions, signals, Spark's output and reports."""
