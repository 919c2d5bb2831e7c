"""Dead letters: write, read, count and purge them."""
