"""The one codec of Kafka's messages, for the server, the client, the benchmarks and the doctor.

`messages.txt` has the shapes as data, `shapes` reads it, `decode` and `encode` turn bytes into values and back by these
shapes, and `frames` writes and reads what is in front of a body. Knows no socket and no API: what a message means is
the business of its users. Produce and Fetch have hand-written code beside it where the copy of a batch would cost.
"""
