"""The APIs of Kafka: a file or folder for each noun."""
