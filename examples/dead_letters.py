"""Show why messages became dead letters, and publish those of one cause again."""

import os
import time

from goqueue.client import Client, Letters, dead_letters

with Client(os.environ.get("GOQUEUE_SERVER", "http://127.0.0.1:8080")) as client:
    for letter in client.send(dead_letters.browse("refunds")).letters:
        print(letter.message.value, letter.cause.reason, letter.cause.error)

    rejected = Letters(reasons=["rejected"])
    print("to move:", client.send(dead_letters.preview("refunds", rejected)).moves.moved)
    job = client.send(dead_letters.redrive("refunds", rejected, rate=100))
    while not job.is_over:
        time.sleep(0.1)
        job = client.send(dead_letters.find_redrive(job.id))
    print(job.state, job.moves.moved)
