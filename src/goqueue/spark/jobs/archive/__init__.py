"""The archive job."""
