"""``python -m calcli``."""

from calcli.cli.main import process

if __name__ == "__main__":
    process()
