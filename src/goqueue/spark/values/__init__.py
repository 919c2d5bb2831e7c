"""Values of messages as columns: Avro, JSON and Protobuf."""
