"""Kafka clients of the benchmarks: confluent-kafka, and bare sockets."""
