"""GoQueue: one broker for replayable logs and leased queues."""

__version__ = "0.1.0"
