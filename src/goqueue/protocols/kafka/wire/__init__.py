"""The Kafka protocol: connections, frames, and the codec of requests and replies."""
