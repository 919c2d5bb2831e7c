"""Transactions: identities, publishing, markers, sinks."""
