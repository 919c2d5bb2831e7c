"""Transactions by HTTP."""
