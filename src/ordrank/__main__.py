"""``python -m ordrank`` is the command line."""

from ordrank.cli import app

if __name__ == "__main__":
    app()
