"""Share groups by Kafka's protocol."""
