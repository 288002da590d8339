"""Every error that Zerofleet raises on purpose.

    ZerofleetError
    ├── UsageError(ValueError)          the caller asked for something impossible
    │   ├── ConfigError                 a setting: names the field, its value and the remedy
    │   ├── GameError                   a game that does not exist, or breaks a law of the protocol
    │   ├── IllegalMoveError            a move that the rules forbid in that position
    │   ├── TerminalStateError          a finished position where a move is needed
    │   └── RunError                    a run that does not exist, or is not what was asked for
    ├── StreamError                     what crosses processes
    │   ├── DecodeError                 bytes that are no record of ours
    │   ├── StreamUnavailableError      the store does not answer; waiting and trying again may help
    │   │   └── NeedsCeilingError       no game number may be given out until the controller raises the ceiling
    │   └── StaleEpochError             a successor has taken over; the caller must end
    ├── InferenceError                  a request that was refused, or a forward pass that failed
    │   ├── InferenceUnavailableError   no server answers; waiting and trying again may help
    │   └── WireError                   bytes on a connection that are no frame of ours; that connection is lost
    ├── StorageError                    a file that is missing, torn, of another kind, or cannot be written
    │   └── DamagedRunError             a run's own files lack what they must hold; a FatalRoleError as well
    └── FatalRoleError                  a role that must never be restarted, such as after a loss that is not finite

A message says what happened, the value, the limit, and what to do.
"""

from __future__ import annotations


class ZerofleetError(Exception):
    """Root of the tree: nothing else is raised on purpose."""


class UsageError(ZerofleetError, ValueError):
    """The caller asked for something impossible; the command line prints it in a line or two and exits with 2."""


class ConfigError(UsageError):
    """A setting is unknown, impossible, or contradicts another one."""


class GameError(UsageError):
    """A game is unknown, or breaks a law of the game protocol."""


class IllegalMoveError(UsageError):
    """A move is not legal in its position."""


class TerminalStateError(UsageError):
    """A finished position was given where somebody still has to move."""


class RunError(UsageError):
    """A run does not exist, is busy, or is not the one that was asked for."""


class StreamError(ZerofleetError):
    """Something that crosses processes went wrong."""


class DecodeError(StreamError):
    """Bytes are not the record that they should be; the message holds the path into the payload."""


class StreamUnavailableError(StreamError):
    """The store does not answer; nothing is known to be lost, and trying again may help."""


class NeedsCeilingError(StreamUnavailableError):
    """No game number may be given out until the controller has raised the ceiling; trying again helps."""


class StaleEpochError(StreamError):
    """Another process has taken over this role: this one must change nothing more, and end."""


class InferenceError(ZerofleetError):
    """A request was refused, or its forward pass failed."""


class InferenceUnavailableError(InferenceError):
    """No inference server answered in time; trying again may help."""


class WireError(InferenceError):
    """Bytes on a connection are no frame of ours: that connection is lost, no other one."""


class StorageError(ZerofleetError):
    """A file is missing, torn, of another kind than expected, or cannot be written."""


class FatalRoleError(ZerofleetError):
    """The role cannot go on, and a restart would not help: the run must stop and say so."""


class DamagedRunError(StorageError, FatalRoleError):
    """What a run must have on disk is damaged, gone, or another run's: no restart mends it, only the files' return."""
