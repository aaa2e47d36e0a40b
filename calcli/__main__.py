"""``python -m calcli``."""

from calcli.cli.main import main

if __name__ == "__main__":
    main()
