"""Unit tests of `goqueue.kafka_wire`."""
