"""``python -m symmetries``: the same as the command ``symmetries``."""

from symmetries.cli import app

if __name__ == "__main__":
    app()
