"""HTTP: JSON in, JSON out, problem documents for what goes wrong.

`routes` is the one table of what is offered; the paths, the checks of requests, the OpenAPI document and the page for
people all come from it. Each request becomes a call of one of the broker's operations.
"""
