"""Handle the messages of a queue, ten at a time. Stop it with Ctrl-C: what is at work may finish."""

import os

from goqueue.client import Client, QueueMessage, Reject, Retry


def send_mail(message: QueueMessage) -> None:
    """Do the work: return to acknowledge the message, raise to try again or to give up."""
    if message.value is None:
        raise Reject("no address")  # a dead letter at once
    if message.value == b"busy@example.com" and message.delivery_count == 1:
        raise Retry("the mailbox is busy", delay_s=0.1)
    print("sent to", message.value.decode(), flush=True)


with Client(os.environ.get("GOQUEUE_SERVER", "http://127.0.0.1:8080")) as client:
    client.worker("mailer", "mails", send_mail, concurrency=10, visibility_s=30).run()
