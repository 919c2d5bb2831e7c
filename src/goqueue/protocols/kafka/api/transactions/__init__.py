"""Producers and transactions by Kafka's protocol."""
