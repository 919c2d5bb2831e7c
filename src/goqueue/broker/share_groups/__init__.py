"""Share groups of Kafka: another way to receive and settle the messages of a queue group."""
