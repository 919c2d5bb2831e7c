"""What can be seen of a running broker: its metrics and its health. Looks, and changes nothing."""
