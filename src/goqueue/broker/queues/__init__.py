"""Queue groups: receive, settle, peek, settings and counts."""
