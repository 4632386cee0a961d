"""``python -m fedloom``: the command ``fedloom``."""

from fedloom.cli.app import main

if __name__ == "__main__":
    main()
