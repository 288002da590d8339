"""Where runs are kept.  Loads nothing: the command line needs it before it knows what it was asked for."""

from pathlib import Path

DEFAULT_STORAGE = Path("runs")
