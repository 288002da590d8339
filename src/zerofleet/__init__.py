"""Zerofleet: a distributed actor-learner service that trains AlphaZero-style players."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("zerofleet")
except PackageNotFoundError:  # a source tree on the path, not installed
    __version__ = "0+source"

__all__ = ["__version__"]
