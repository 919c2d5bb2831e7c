"""Members of share groups (KIP-932)."""
