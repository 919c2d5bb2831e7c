"""The benchmark of a modest client beside heavy ones."""
