"""The laws of the game protocol, checked on random games.

`check_laws` plays games at random and raises at the first broken law, naming the method and the position.
It takes nothing for granted but the protocol's signatures, so it serves for built-in games and users' files alike.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from zerofleet.errors import GameError
from zerofleet.games.base import Game, Move, Planes, State, Symmetry
from zerofleet.games.packing import plane_dtype, unpack_planes

_MAX_PLIES = 10_000


@dataclass(frozen=True, slots=True)
class _Look:
    """All that a game says about one position, to compare with what it says later."""

    to_play: int
    value: int | None
    moves: tuple[Move, ...]
    actions: tuple[int, ...]
    planes: bytes
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What random games of a sound game were like."""

    num_games: int
    mean_plies: float
    most_plies: int
    mean_moves: float  # legal moves per position
    most_moves: int
    wins_of_first: int
    wins_of_second: int
    terminations: dict[str, int]  # games by the rules' reason for their end
    shares_actions: bool  # two moves of one position have the same action somewhere
    wins_of_player_to_move: int  # games won by whoever is to move in the final position

    @property
    def num_draws(self) -> int:
        """Return how many games nobody won."""
        return self.num_games - self.wins_of_first - self.wins_of_second


def check_laws(game: Game, num_games: int, seed: int) -> Survey:
    """Play `num_games` random games, check every law at every position, and return what the games were like.

    Raises:
        GameError: a law is broken, or a method raises; the message names the method and shows the position.
    """
    played = [_RandomGame(game, np.random.default_rng([seed, number])) for number in range(num_games)]
    for one in played:
        one.play()
    plies = [len(one.played) for one in played]
    counts = [count for one in played for count in one.num_moves]
    return Survey(
        num_games=num_games,
        mean_plies=float(np.mean(plies)),
        most_plies=max(plies),
        mean_moves=float(np.mean(counts)),
        most_moves=max(counts),
        wins_of_first=sum(one.outcome == 1 for one in played),
        wins_of_second=sum(one.outcome == -1 for one in played),
        terminations=dict(Counter(one.termination for one in played)),
        shares_actions=any(one.shares_actions for one in played),
        wins_of_player_to_move=sum(one.winner_is_to_move for one in played),
    )


class _RandomGame:
    def __init__(self, game: Game, rng: np.random.Generator) -> None:
        self.game = game
        self.rng = rng
        self.played: list[str] = []
        self.num_moves: list[int] = []
        self.outcome = 0  # for player 0
        self.termination = ""
        self.shares_actions = False
        self.winner_is_to_move = False
        self._state: State = None

    def play(self) -> None:
        """Play one game to its end, checking each position and each move."""
        try:
            self._play()
        except GameError as error:
            if _POSITION in str(error):
                raise
            raise self._error(str(error), self._state) from error
        except Exception as error:  # a user's rules may raise anything
            method = _users_method(error)
            raise self._error(
                f"{self.game.spec}: {method} raised {type(error).__name__}: {error}", self._state
            ) from error

    def _play(self) -> None:
        state = self._state = self.game.initial_state()
        if self.game.terminal_value(state) is not None:
            self._broken("initial_state", "the game must not be over before it starts", state)
        if self.game.to_play(state) != 0:
            self._broken("to_play", "player 0 moves first", state)
        images = _starting_images(self.game, state)
        look = self._check_position(state)
        while look.moves:
            if len(self.played) >= _MAX_PLIES:
                self._broken("terminal_value", f"a game must end within {_MAX_PLIES} moves", state)
            ordinal = int(self.rng.integers(len(look.moves)))
            after = self._check_move(state, look, look.moves[ordinal])
            images = [(symmetry, self._follow(symmetry, image, look, ordinal, after)) for symmetry, image in images]
            state = self._state = after
            look = self._check_position(after)
            for symmetry, image in images:
                self._check_image(symmetry, state, image)
        self.termination = self.game.termination(state)
        if not self.termination:
            self._broken("termination", "a finished game needs a word for why it ended", state)
        value = look.value or 0
        self.outcome = value if look.to_play == 0 else -value
        self.winner_is_to_move = value == 1

    def _check_position(self, state: State) -> _Look:
        look = self._look(state)
        if look.to_play not in (0, 1):
            self._broken("to_play", f"must be 0 or 1, got {look.to_play!r}", state)
        if look.value not in (None, -1, 0, 1) or isinstance(look.value, float):
            self._broken("terminal_value", f"must be None, -1, 0 or 1, got {look.value!r}", state)
        if (look.value is None) != bool(look.moves):
            self._broken("legal_moves", "must be empty exactly when terminal_value is not None; "
                         f"got {len(look.moves)} moves and the value {look.value!r}", state)  # fmt: skip
        if not all(isinstance(move, Hashable) for move in look.moves):
            self._broken("legal_moves", "moves must be hashable", state)
        if len(set(look.moves)) != len(look.moves):
            self._broken("legal_moves", f"lists a move twice: {list(look.moves)}", state)
        if not all(isinstance(a, (int, np.integer)) and 0 <= a < self.game.num_actions for a in look.actions):
            self._broken("move_index", f"must lie in [0, {self.game.num_actions}), got {list(look.actions)}", state)
        if look.moves:
            self.num_moves.append(len(look.moves))
            self.shares_actions |= len(set(look.actions)) < len(look.actions)
        self._check_same(state, look, self._look(state), "asked twice, it must answer the same, but")
        if list(look.actions) != list(self.game.legal_actions(state)):
            self._broken("legal_actions", "must be move_index of each legal move, in order", state)
        self._check_planes(state)
        return look

    def _check_planes(self, state: State) -> None:
        game = self.game
        planes = np.asarray(game.encode(state))
        if planes.shape != game.observation_shape:
            self._broken("encode", f"must have shape {game.observation_shape}, got {planes.shape}", state)
        if not np.isfinite(planes).all():
            self._broken("encode", "must be finite", state)
        if game.plane_type == "bits" and not np.isin(planes, (0, 1)).all():
            self._broken("encode", "must hold zeros and ones where plane_type is 'bits'", state)
        expected = planes.astype(plane_dtype(game.plane_type))
        batch = game.encode_batch([state, state])
        if batch.shape != (2, *planes.shape) or not (batch == expected).all():
            self._broken("encode_batch", "must hold what encode gives for each position", state)
        packed = game.pack([state, state])
        if packed.dtype != np.uint8 or packed.shape != (2, game.packed_size):
            self._broken(
                "pack", f"must be uint8 of shape (2, {game.packed_size}), got {packed.dtype} {packed.shape}", state
            )
        if not (unpack_planes(packed, game.observation_shape, game.plane_type) == expected).all():
            self._broken("pack", "must hold what encode gives for each position", state)

    def _check_move(self, state: State, look: _Look, move: Move) -> State:
        after = self.game.next_state(state, move)
        self._check_same(state, look, self._look(state), "next_state must leave its argument as it was, but")
        again = self.game.next_state(state, move)
        self._check_same(after, self._look(after), self._look(again), "the same move twice led to two positions:")
        self.played.append(self.game.move_text(state, move))
        return after

    def _check_same(self, state: State, before: _Look, after: _Look, law: str) -> None:
        methods = {"to_play": "to_play", "value": "terminal_value", "moves": "legal_moves", "actions": "move_index",
                   "planes": "encode", "text": "state_text"}  # fmt: skip
        for field, method in methods.items():
            one, two = getattr(before, field), getattr(after, field)
            if one != two:
                shown = "" if field == "planes" else f": {one!r} and {two!r}"
                self._broken(method, f"{law} {method} changed{shown}", state)

    def _follow(self, symmetry: Symmetry, image: State, look: _Look, ordinal: int, after: State) -> State:
        """Play the image of the move; of several moves with its action, one that leads to the right planes."""
        game = self.game
        action = int(symmetry.actions[look.actions[ordinal]])
        candidates = [move for move in game.legal_moves(image) if game.move_index(move) == action]
        if not candidates:
            self._broken("symmetries", f"{symmetry.name!r} maps the action {look.actions[ordinal]} to {action}, "
                         "which is not legal in the image", image)  # fmt: skip
        expected = transform_planes(symmetry, game.encode(after))
        reached = [game.next_state(image, move) for move in candidates]
        for candidate in reached:
            if np.array_equal(game.encode(candidate), expected):
                return candidate
        self._broken("symmetries", f"{symmetry.name!r} does not commute with the action {look.actions[ordinal]}: "
                     "the image of the position after it has other planes", after)  # fmt: skip

    def _check_image(self, symmetry: Symmetry, state: State, image: State) -> None:
        game = self.game
        mapped = sorted(int(symmetry.actions[action]) for action in game.legal_actions(state))
        if mapped != sorted(game.legal_actions(image)):
            self._broken("symmetries", f"{symmetry.name!r} maps the legal actions to {mapped}, but the image has "
                         f"{sorted(game.legal_actions(image))}", state)  # fmt: skip
        if game.terminal_value(state) != game.terminal_value(image) or game.to_play(state) != game.to_play(image):
            self._broken("symmetries", f"{symmetry.name!r} changes the value or the player to move", state)

    def _look(self, state: State) -> _Look:
        game = self.game
        moves = tuple(game.legal_moves(state))
        return _Look(
            to_play=game.to_play(state),
            value=game.terminal_value(state),
            moves=moves,
            actions=tuple(game.move_index(move) for move in moves),
            planes=np.asarray(game.encode(state)).tobytes(),
            text=game.state_text(state),
        )

    def _broken(self, method: str, law: str, state: State) -> NoReturn:
        raise self._error(f"{self.game.spec}: {method}: {law}", state)

    def _error(self, what: str, state: State) -> GameError:
        return GameError(
            f"{what}\n{_POSITION}{_shown(self.game, state)}\nafter the moves: {' '.join(self.played) or 'none'}"
        )


_POSITION = "position: "


def _shown(game: Game, state: State) -> str:
    """Return a position as text, whatever its game does when it is asked for one."""
    try:
        text = game.state_text(state)
        return repr(state) if text is None else text
    except Exception as error:  # it may be what is being told of
        return f"one that has no text ({type(error).__name__}: {error})"


def _users_method(error: Exception) -> str:
    """Return the name of the first function outside of this package that an exception came through."""
    package = str(Path(__file__).resolve().parents[1])
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not str(Path(frame.filename).resolve()).startswith(package)]
    return f"{outside[0].name} (line {outside[0].lineno})" if outside else "a method"


def transform_planes(symmetry: Symmetry, planes: Planes) -> Planes:
    """Return the image of `planes`, `[P, H, W]`, under a symmetry."""
    return planes.reshape(len(planes), -1)[:, symmetry.squares].reshape(planes.shape)


def transform_policy(symmetry: Symmetry, policy: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return the image of `policy`, `[num_actions]`, under a symmetry."""
    image = np.empty_like(policy)
    image[symmetry.actions] = policy
    return image


def _starting_images(game: Game, start: State) -> Sequence[tuple[Symmetry, State]]:
    """Return the symmetries that leave the first position as it is: its own image, from which games can be mirrored.

    Others, such as those that swap the colours of Othello's first four discs, lead to positions that no game reaches
    from the start, and cannot be checked by playing.
    """
    planes = game.encode(start)
    return [(s, start) for s in game.symmetries() if np.array_equal(transform_planes(s, planes), planes)]


__all__ = ["Survey", "check_laws", "transform_planes", "transform_policy"]
