"""`evaluate`, `arena` and `analyse` on a run with real weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from zerofleet.actors import players
from zerofleet.actors.play_style import PlayStyle
from zerofleet.actors.players import Choice, best_move
from zerofleet.cluster import play, train_command
from zerofleet.cluster.cli import run_command
from zerofleet.cluster.evaluate import evaluate_run
from zerofleet.cluster.game_source import GameSource
from zerofleet.cluster.launch import TrainOptions, TrainResult
from zerofleet.cluster.match import final_match
from zerofleet.cluster.progress import Watcher
from zerofleet.cluster.run_config import resolve_config
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.cluster.trained import load_trained
from zerofleet.games import load_game
from zerofleet.network.net import build_network
from zerofleet.network.weights import WeightsMeta, encode_weights, weights_path
from zerofleet.search.base import SearchResult
from zerofleet.search.evaluators import MixedEvaluator
from zerofleet.search.pool import SearchPool
from zerofleet.streams.store import WeightsRecord


def make_run(storage: Path, game_name: str, run: str = "first") -> RunFolder:
    """Make a run that has published an untrained network as version 1."""
    folder = RunFolder(storage, run)
    folder.create(resolve_config(game_name, ["network.channels=8", "network.blocks=1"]), GameSource(spec=game_name))
    publish(folder, 1)
    return folder


def publish(folder: RunFolder, version: int) -> None:
    """Publish an untrained network."""
    config = folder.config()
    game = load_game(config.game)
    meta = WeightsMeta(
        run=folder.run,
        version=version,
        step=0,
        game=game.spec,
        rules_version=game.rules_version,
        observation_shape=game.observation_shape,
        num_actions=game.num_actions,
        network=config.network,
    )
    net = build_network(game.observation_shape, game.num_actions, config.network, seed=2 + version)
    data, meta = encode_weights(net, meta)
    weights_path(folder.weights, version, 1).write_bytes(data)
    folder.persist_published(WeightsRecord(version, 0, meta.sha256))


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert run_command([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def test_a_newer_network_takes_over_the_backend_of_the_one_before(tmp_path: Path) -> None:
    """And says what it says from a backend of its own: the probe of a long run makes one backend."""
    folder = make_run(tmp_path, "tictactoe")
    first = load_trained(folder)
    publish(folder, 2)
    second, fresh = load_trained(folder, first), load_trained(folder)
    assert second.evaluator.backend is first.evaluator.backend
    assert fresh.evaluator.backend is not first.evaluator.backend
    assert (first.version, second.version, fresh.version) == (1, 2, 2)
    pool = SearchPool(second.game, 1, second.search)
    game = second.game
    pool.reset(0, game.next_state(game.initial_state(), 4))  # of no stones at all every network says the same
    batch = pool.collect()
    old, new, wanted = (net.evaluator.evaluate(batch) for net in (first, second, fresh))
    assert new.weights_version == 2
    np.testing.assert_allclose(new.priors, wanted.priors, rtol=1e-4)
    assert np.abs(new.priors - old.priors).max() > 1e-3


def test_tic_tac_toe_is_evaluated_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "tictactoe")
    found = run_json(capsys, "evaluate", "first", "--storage", str(tmp_path), "--policy-only")
    assert found["positions"] == 4520
    assert found["errors"] == found["error_rate"] * 4520  # type: ignore[operator]
    assert found["error_rate"] == found["policy_only_error_rate"]
    assert 0.2 < found["error_rate"] < 0.8  # type: ignore[operator]  # untrained
    assert found["baseline"] is None
    low, high = found["ci95"]  # type: ignore[misc]
    assert low < found["error_rate"] < high


def test_a_file_of_positions_is_evaluated_beside_the_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A win at hand and a block that is forced: with a search nobody misses them."""
    make_run(tmp_path, "connect4")
    path = tmp_path / "positions.txt"
    path.write_text("112233 18\n223344 18\n334455 18\n")
    arguments = ("--storage", str(tmp_path), "--positions", str(path), "--simulations", "100", "--seed", "5")
    found = run_json(capsys, "evaluate", "first", *arguments)
    assert (found["positions"], found["errors"], found["seed"]) == (3, 0, 5)
    assert found["by_stage"]["begin-easy"]["positions"] == 3  # type: ignore[index]
    assert found["baseline"]["errors"] == 0  # type: ignore[index]
    assert found["weights_version"] == 1


def test_an_evaluation_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "connect4")
    path = tmp_path / "positions.txt"
    path.write_text("112233 18\n")
    assert (
        run_command(["evaluate", "first", "--storage", str(tmp_path), "--positions", str(path), "--simulations", "20"])
        == 0
    )
    out = capsys.readouterr().out
    assert "policy alone" in out
    assert "UCT, 20 rollouts" in out
    assert "errors 0 of 1" in out


def test_openings_are_evaluated_too(tmp_path: Path) -> None:
    """The first stage is the one in which the solver works longest."""
    found = evaluate_run(make_run(tmp_path, "connect4"), positions_file=None, num_simulations=0, seed=1, num_each=5)
    assert list(found["by_stage"]) == ["begin-easy", "middle-easy", "middle-medium", "end-easy"]
    assert [stage["positions"] for stage in found["by_stage"].values()] == [5, 5, 5, 5]


def test_training_with_a_match_ends_with_the_errors_beside_the_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_run(tmp_path, "tictactoe")

    def ended(_options: TrainOptions, _watcher: Watcher) -> TrainResult:
        return TrainResult(
            run="first",
            folder=folder,
            exit_reason="minutes",
            error="",
            games=9,
            steps=3,
            weights_version=1,
            seconds_to_first_weights=None,
        )

    monkeypatch.setattr(train_command, "train", ended)
    monkeypatch.setattr(train_command, "final_match", lambda of: final_match(of, num_games=4))
    monkeypatch.setattr(train_command, "NUM_SIMULATIONS", 16)
    train = ("train", "tictactoe", "--run", "first", "--storage", str(tmp_path), "--match")
    evaluation = run_json(capsys, *train)["evaluation"]
    assert isinstance(evaluation, dict)
    assert evaluation["positions"] == 4520
    assert evaluation["baseline"]["player"] == "uct-16"
    assert run_command([*train]) == 0
    said = capsys.readouterr().out
    assert "UCT, 16 rollouts" in said


def test_a_wrong_file_of_positions_is_a_users_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "connect4")
    path = tmp_path / "positions.txt"
    path.write_text("112233 0\n")
    assert run_command(["evaluate", "first", "--storage", str(tmp_path), "--positions", str(path)]) == 2
    assert "line 1" in capsys.readouterr().err


def test_a_run_meets_others_in_the_arena(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_run(tmp_path, "tictactoe")
    record = tmp_path / "games.txt"
    arguments = ("--storage", str(tmp_path), "--games", "20", "--simulations", "20", "--seed", "3")
    found = run_json(capsys, "arena", "first", "random", *arguments, "--record", str(record))
    assert found["games"] == 20
    assert found["wins"] + found["draws"] + found["losses"] == 20  # type: ignore[operator]
    assert found["score"] > 0.6  # type: ignore[operator]
    text = record.read_text()
    assert text.count('[Game "tictactoe"]') == 20
    assert text.count('[Round "1.2"]') == 1
    first = text.split("\n\n")[1]
    assert first.startswith("1. ")
    assert first.split()[-1] in ("1-0", "0-1", "1/2-1/2")
    (weights,) = folder.weights.glob("*.safetensors")
    same = run_json(capsys, "arena", str(weights), "first", *arguments)
    assert same["score"] == 0.5  # one player against itself: each pair is 1 to 1 or two draws
    perfect = run_json(capsys, "arena", "solver", "uct:50", "--game", "tictactoe", *arguments)
    assert perfect["score"] > 0.5  # type: ignore[operator]


def test_networks_in_the_arena_may_differ_in_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "tictactoe")
    arguments = ("--storage", str(tmp_path), "--games", "20", "--seed", "3")
    thinker = "first(simulations=40,symmetries=true,rollouts=0.5)"
    found = run_json(capsys, "arena", thinker, "first(simulations=0)", *arguments)
    assert found["a"] == "first-40 (weights version 1, rollouts=0.5,symmetries=true)"
    assert found["b"] == "first-0 (weights version 1)"
    assert found["score"] > 0.6  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("first(simulations=-1)", "player.simulations must lie in [0, "),
        ("first(rollouts=2)", "player.rollouts must lie in [0, 1], got 2"),
        ("first(simulation=9)", "did you mean simulations"),
        ("first(symmetries=maybe)", "player.symmetries"),
        ("first(simulations)", "cannot read the option 'simulations' of the player"),
        ("random(simulations=9)", "random is no network and has no options, got simulations"),
    ],
)
def test_a_wrong_option_of_a_player_is_a_users_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, told: str
) -> None:
    make_run(tmp_path, "tictactoe")
    assert run_command(["arena", "first", name, "--storage", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert len(said.splitlines()) <= 2


def test_an_evaluation_says_how_the_network_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "tictactoe")
    arguments = ["evaluate", "first", "--storage", str(tmp_path), "--policy-only"]
    plain, mean = run_json(capsys, *arguments), run_json(capsys, *arguments, "--symmetries")
    assert (plain["style"], mean["style"]) == ("", "symmetries=true")
    assert plain["errors"] != mean["errors"]  # an untrained network says another thing of each image
    assert run_command([*arguments, "--symmetries"]) == 0
    assert "weights version 1, symmetries=true: moves that" in capsys.readouterr().out


def test_with_symmetries_mirrored_moves_have_the_same_prior(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "connect4")
    arguments = ("analyse", "connect4", "--run", "first", "--storage", str(tmp_path), "--position", "44")
    plain, mean = (np.array(run_json(capsys, *arguments, *more)["priors"]) for more in ((), ("--symmetries",)))
    assert np.abs(plain - plain[::-1]).max() > 1e-4
    np.testing.assert_allclose(mean, mean[::-1], atol=1e-6)


def test_the_choice_of_a_style_is_the_one_that_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path, "connect4")
    chosen_by: list[str] = []

    def note(result: SearchResult, choice: Choice = "visits") -> int:
        chosen_by.append(choice)
        return best_move(result, choice)

    monkeypatch.setattr(players, "best_move", note)
    monkeypatch.setattr(play, "best_move", note)
    style = PlayStyle(choice="visits_q", symmetries=True, rollouts=0.25)
    net = load_trained(RunFolder(tmp_path, "first"))
    net.player(4, style).choose(net.game.initial_state(), np.random.default_rng(0))
    assert chosen_by == ["visits_q"]
    game, thinking = play.make_thinking("connect4", "first", tmp_path, simulations=4, style=style, seed=1)
    play.Session(game, thinking, LeavesAtOnce(), person_plays=1).run()
    assert chosen_by == ["visits_q", "visits_q"]
    assert isinstance(thinking.evaluator, MixedEvaluator)


class LeavesAtOnce:
    """A terminal whose person says nothing."""

    def say(self, text: str) -> None:
        pass

    def ask(self, prompt: str) -> str | None:
        return None


@pytest.mark.parametrize("more", [["--symmetries"], ["--rollouts", "0.5"]])
def test_without_a_network_there_is_nothing_to_refine(capsys: pytest.CaptureFixture[str], more: list[str]) -> None:
    assert run_command(["analyse", "connect4", *more]) == 2
    assert "without --run there is no network" in capsys.readouterr().err


def test_players_of_different_games_do_not_meet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "tictactoe")
    make_run(tmp_path, "connect4", "second")
    assert run_command(["arena", "first", "second", "--storage", str(tmp_path)]) == 2
    assert "different games: connect4 and tictactoe" in capsys.readouterr().err


def test_an_analysis_has_a_row_for_each_move(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "connect4")
    arguments = ("--run", "first", "--storage", str(tmp_path), "--position", "112233", "--simulations", "60")
    found = run_json(capsys, "analyse", "connect4", *arguments)
    assert found["move"] == "4"
    assert found["pv"] == ["4"]
    assert found["value"] > 0.5  # type: ignore[operator]
    assert sum(found["visits"]) == 60  # type: ignore[arg-type]
    assert len(found["priors"]) == len(found["q"]) == len(found["moves"]) == 7  # type: ignore[arg-type]
    assert found["weights_version"] == 1


def test_an_analysis_for_people_shows_board_table_and_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["analyse", "connect4", "--position", "44", "--simulations", "80"]) == 0
    out = capsys.readouterr().out
    assert "1 2 3 4 5 6 7" in out
    assert "Q + U" in out
    assert "├─ " in out


def test_a_run_without_weights_is_an_error_of_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = RunFolder(tmp_path, "empty")
    folder.create(resolve_config("tictactoe", []), GameSource(spec="tictactoe"))
    assert run_command(["evaluate", "empty", "--storage", str(tmp_path)]) == 1
    assert "has published no weights" in capsys.readouterr().err
