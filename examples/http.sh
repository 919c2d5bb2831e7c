#!/bin/sh
# Publish to a queue, receive and acknowledge, with nothing but curl.
set -eu
server=${GOQUEUE_SERVER:-http://127.0.0.1:8080}

curl -fsS "$server/topics/invoices/messages" -H 'content-type: application/json' \
    -d '{"messages": [{"key": "ada", "value": {"amount": 12.5}}]}'
echo

received=$(curl -fsS "$server/groups/printer/receive" -H 'content-type: application/json' \
    -d '{"topic": "invoices", "max": 1, "wait": "5s"}')
echo "$received"

receipt=$(echo "$received" | sed 's/.*"receipt_handle":"\([^"]*\)".*/\1/')
curl -fsS "$server/messages/ack" -H 'content-type: application/json' -d "{\"receipt_handle\": \"$receipt\"}"
echo
