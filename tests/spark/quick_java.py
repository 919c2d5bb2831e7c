"""How Javas of tests are told to be quick: each of them lives for seconds, and has little to do.

Compiling is left to the first of the two compilers, and memory is cleared by one thread. That halves the time of the
processor that a Spark takes to start, and a machine that runs all tests has none to spare.
"""

from __future__ import annotations

from typing import Final

QUICK_JAVA: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
QUICK_DRIVERS: Final = {"SPARK_SUBMIT_OPTS": QUICK_JAVA, "SPARK_LAUNCHER_OPTS": QUICK_JAVA}
"""What the environment has to say for drivers, in whichever process they start, and what prepares their start."""
