"""The replay job."""
