"""``python -m tapec``: the command line."""

from __future__ import annotations

from tapec.cli import start

if __name__ == "__main__":
    start()
