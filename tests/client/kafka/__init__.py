"""The data client against real brokers, and against servers that are none."""
