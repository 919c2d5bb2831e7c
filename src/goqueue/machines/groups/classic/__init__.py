"""Classic groups: members join in rounds, and one of them assigns."""
