"""Jobs on Spark that work through topics and end: each is a command of `goqueue job`."""
