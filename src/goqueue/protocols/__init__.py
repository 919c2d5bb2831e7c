"""Translation between wire formats and operations; nothing is decided here."""
