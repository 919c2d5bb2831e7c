"""The data pipeline on Spark: a Java and a session to run it on, the data source `goqueue`, pipelines and jobs.

Spark looks for data sources, and runs its Python workers, with `python3` of the `PATH` unless the environment names
another Python. A program that runs in a virtual environment without activating it would not find `goqueue` there. So
importing this package names its own Python before Java starts. It does not change settings of the user.
"""

import os
import sys
from collections.abc import MutableMapping


def name_python(environ: MutableMapping[str, str], python: str) -> None:
    """Set the Python for Spark, unless the user or spark-submit has chosen one."""
    chosen = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT")
    if python and not any(name in environ for name in chosen):
        environ["PYSPARK_PYTHON"] = environ["PYSPARK_DRIVER_PYTHON"] = python


name_python(os.environ, sys.executable)
