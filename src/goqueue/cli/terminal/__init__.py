"""What commands print, and how they ask."""
