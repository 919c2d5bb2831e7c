"""The state machine of redrives."""
