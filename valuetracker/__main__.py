"""Lets `python -m valuetracker` stand in for the `valuetracker` command."""

from valuetracker.cli.main import main

if __name__ == "__main__":
    main()
