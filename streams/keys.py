"""Every key that Zerofleet writes to Redis.

All keys of a run start with `zerofleet:<run>:`.  None expires: leases are times that readers compare with Redis's own
clock, so that a lost lease can still be seen and explained.

| key after the prefix | type   | what it holds, and how much                                                          |
|----------------------|--------|--------------------------------------------------------------------------------------|
| `episodes`           | stream | field `e`: an encoded episode.  An entry goes when the learner acknowledges it or    |
|                      |        | moves it to `dead-letters`.  Group `learner`.  At most `max_backlog` entries         |
| `dead-letters`       | stream | fields `e` (the payload), `entry` (its id), `reason`: the newest 100                 |
| `counters`           | hash   | `dead_letters`: how many there ever were                                             |
| `epochs`             | hash   | role (`learner`, `controller`) -> epoch of the one that may write                    |
| `games`              | hash   | `next` game number to give out; `ceiling`: the first that may not be given out yet;  |
|                      |        | `server`: run id of the start of the server for which the two were seen to           |
| `wish`               | hash   | `actors`: how many are wished; `sequence`: counts the wishes                         |
| `weights`            | hash   | `version`, `step`, `sha256` of the last published weights                            |
| `roles`              | hash   | `<role>/<index>` -> encoded `RoleRecord`: one field for each process, some 300 bytes |
| `leases`             | hash   | `<role>/<index>` -> `<expiry, ms since 1970>:<incarnation>`                          |
| `state`              | string | the run's state, a JSON object of about 1 kB                                         |
| `commands`           | hash   | `stop`, `paused`: present while asked for                                            |

All of them live until the user deletes them.  After a loss of Redis the controller writes `epochs`, `games`, `wish` and
`weights` back from the run folder; roles come back with their next heartbeat; a lost backlog is lost.
"""

from __future__ import annotations

import re

from zerofleet.errors import RunError

GROUP = "learner"
"""The consumer group of the episode stream."""

PAYLOAD_FIELD = b"e"

DEAD_LETTERS_KEPT = 100
"""Dead letters whose payload is kept; the counter counts all."""

_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Keys:
    """The names of one run's keys."""

    def __init__(self, run: str) -> None:
        if not _RUN_NAME.fullmatch(run):
            raise RunError(
                f"run name {run!r} is not allowed: take 1 to 100 letters, digits, '.', '_' or '-', "
                "starting with a letter or digit"
            )
        self.prefix = f"zerofleet:{run}:"
        self.episodes = self.prefix + "episodes"
        self.dead_letters = self.prefix + "dead-letters"
        self.counters = self.prefix + "counters"
        self.epochs = self.prefix + "epochs"
        self.games = self.prefix + "games"
        self.wish = self.prefix + "wish"
        self.weights = self.prefix + "weights"
        self.roles = self.prefix + "roles"
        self.leases = self.prefix + "leases"
        self.state = self.prefix + "state"
        self.commands = self.prefix + "commands"
