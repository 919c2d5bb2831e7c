"""The state machine of the transaction coordinator."""
