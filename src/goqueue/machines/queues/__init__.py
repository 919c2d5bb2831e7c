"""The state machine of queue groups: leases, settled messages, retries."""
