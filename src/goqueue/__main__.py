"""`python -m goqueue` is `goqueue`."""

from __future__ import annotations

from goqueue.cli.main import app

if __name__ == "__main__":
    app()
