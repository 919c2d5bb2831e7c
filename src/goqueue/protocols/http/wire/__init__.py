"""The HTTP protocol: connections, requests, replies and problem documents."""
