"""Consumer groups by Kafka's protocol."""
