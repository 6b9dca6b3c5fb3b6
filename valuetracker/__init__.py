"""Value Tracker: the server that keeps the state of SillyTavern extensions."""

__version__ = "0.1.0"
