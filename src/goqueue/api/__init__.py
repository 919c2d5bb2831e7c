"""Requests and replies of the HTTP interface, each written once, for the server and for the client."""
