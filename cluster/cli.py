"""The command line.  Each command imports what it needs when it runs, so that the small ones start at once."""

from __future__ import annotations

import time

BEGAN = time.time()

import sys  # noqa: E402  # the clock starts before anything is loaded
from pathlib import Path  # noqa: E402
from typing import TYPE_CHECKING, Annotated, Literal  # noqa: E402

import typer  # noqa: E402
from typer.exceptions import TyperException  # noqa: E402

from zerofleet.cluster.storage import DEFAULT_STORAGE  # noqa: E402
from zerofleet.errors import UsageError, ZerofleetError  # noqa: E402

if TYPE_CHECKING:
    from zerofleet.cluster.status import RunView

app = typer.Typer(
    help="Train AlphaZero-style players for board games.",
    pretty_exceptions_enable=False,
)

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130

Storage = Annotated[Path, typer.Option("--storage", help="Folder that holds the runs.")]
RedisUrl = Annotated[
    str | None,
    typer.Option(
        "--redis-url",
        help="The run's Redis, where it has one of its own; otherwise ZEROFLEET_REDIS_URL, if that is set.",
        show_default=False,
    ),
]


def _complete_game(incomplete: str) -> list[str]:
    from zerofleet.games.registry import built_in_games

    return [name for name in built_in_games() if name.startswith(incomplete)]


def _complete_run(context: typer.Context, incomplete: str) -> list[str]:
    from zerofleet.cluster.run_folder import run_names

    storage = Path(context.params.get("storage") or DEFAULT_STORAGE)
    return [name for name in run_names(storage) if name.startswith(incomplete)]


Game = Annotated[
    str,
    typer.Argument(
        metavar="GAME",
        help='A game\'s name, or "path/to/file.py:MyGame".',
        show_default=False,
        autocompletion=_complete_game,
    ),
]
Run = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's name.", show_default=False, autocompletion=_complete_run)
]
Symmetries = Annotated[
    bool, typer.Option("--symmetries", help="Judge positions by the mean over their symmetric images.")
]
Rollouts = Annotated[
    float, typer.Option("--rollouts", metavar="L", help="Share of a random game's outcome in a leaf's value, 0 to 1.")
]
Choice = Annotated[
    Literal["visits", "visits_q"],
    typer.Option("--choice", help="Play the most visited move, or by visits * (1 + Q)."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def train(
    game: Game,
    run: Annotated[
        str | None,
        typer.Option("--run", help="The run's name; an existing one is resumed.", autocompletion=_complete_run),
    ] = None,
    storage: Storage = DEFAULT_STORAGE,
    minutes: Annotated[float | None, typer.Option(min=0, help="End after so many minutes of this invocation.")] = None,
    games: Annotated[int | None, typer.Option(min=1, help="End when the run has so many games in total.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="End when the run has so many steps in total.")] = None,
    actors: Annotated[int | None, typer.Option(min=1, help="Number of actors.")] = None,
    address: Annotated[str | None, typer.Option("--address", help="An existing Ray cluster to run on.")] = None,
    redis_url: RedisUrl = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting, such as search.num_simulations=200."),
    ] = None,
    match: Annotated[
        bool,
        typer.Option("--match", help="In the end, play 200 games against a search without network, and count errors."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train a player; an existing run goes on where it was."""
    from zerofleet.cluster.launch import TrainOptions
    from zerofleet.cluster.status import redis_url_given
    from zerofleet.cluster.train_command import run_train

    if sum(bound is not None for bound in (minutes, games, steps)) > 1:
        raise UsageError("give one of --minutes, --games and --steps")
    options = TrainOptions(
        game=game,
        storage=storage,
        run=run,
        minutes=minutes,
        games=games,
        steps=steps,
        actors=actors,
        address=address,
        redis_url=redis_url_given(redis_url),
        assignments=tuple(assignments or ()),
        began=BEGAN,
    )
    raise typer.Exit(run_train(options, with_match=match, as_json=as_json))


@app.command()
def status(run: Run, storage: Storage = DEFAULT_STORAGE, redis_url: RedisUrl = None, as_json: AsJson = False) -> None:
    """Show how a run is, and what it waits for."""
    from zerofleet.cluster.progress import write_json
    from zerofleet.cluster.status_text import print_status

    found = _view(run, storage, redis_url).status()
    if as_json:
        write_json(found)
    else:
        print_status(found)


@app.command()
def scale(
    run: Run,
    actors: Annotated[int, typer.Argument(metavar="N", help="Number of actors.", show_default=False)],
    storage: Storage = DEFAULT_STORAGE,
    redis_url: RedisUrl = None,
) -> None:
    """Change the number of actors while the run goes on."""
    _view(run, storage, redis_url).scale(actors)
    typer.echo(f"{run}: {actors} actors are wished for")


@app.command()
def stop(
    run: Run,
    storage: Storage = DEFAULT_STORAGE,
    redis_url: RedisUrl = None,
    timeout_s: Annotated[float, typer.Option("--timeout", help="Seconds to wait for the end.")] = 120.0,
) -> None:
    """End a run in order: its finished games are logged, its learner's state is stored."""
    typer.echo(f"{run}: {_view(run, storage, redis_url).stop(timeout_s)}")


@app.command()
def episodes(run: Run, storage: Storage = DEFAULT_STORAGE, redis_url: RedisUrl = None, as_json: AsJson = False) -> None:
    """List the logged games of a run, one a line."""
    from zerofleet.cluster.episodes import list_episodes, print_episodes
    from zerofleet.cluster.progress import write_json
    from zerofleet.cluster.run_folder import RunFolder

    del redis_url  # the log lies in the folder
    listed = list_episodes(RunFolder(storage, run).require())
    if as_json:
        for episode in listed:
            write_json(episode)
    else:
        print_episodes(listed)


@app.command()
def evaluate(
    run: Run,
    storage: Storage = DEFAULT_STORAGE,
    positions: Annotated[
        Path | None,
        typer.Option("--positions", help="A file of `moves score` lines; without it, positions are drawn."),
    ] = None,
    simulations: Annotated[int, typer.Option("--simulations", min=1, help="Simulations a move.")] = 100,
    policy_only: Annotated[bool, typer.Option("--policy-only", help="The network's policy, without search.")] = False,
    symmetries: Symmetries = False,
    rollouts: Rollouts = 0.0,
    choice: Choice = "visits",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the positions and of all rollouts.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Count how often a run's player gives game value away, beside a search without a network."""
    from zerofleet.actors.play_style import PlayStyle
    from zerofleet.cluster.evaluate import evaluate_run, print_evaluation
    from zerofleet.cluster.progress import write_json
    from zerofleet.cluster.run_folder import RunFolder

    found = evaluate_run(
        RunFolder(storage, run).require(),
        positions_file=positions,
        num_simulations=0 if policy_only else simulations,
        style=PlayStyle(symmetries=symmetries, rollouts=rollouts, choice=choice),
        seed=seed,
    )
    if as_json:
        write_json(found)
    else:
        print_evaluation(found)


@app.command()
def export(
    run: Run,
    storage: Storage = DEFAULT_STORAGE,
    output: Annotated[
        Path | None, typer.Option("--output", help="A fresh folder; without it, the run's name and weights version.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a run's newest weights for others: safetensors with a model card, and ONNX."""
    from zerofleet.cluster.export import export_run
    from zerofleet.cluster.progress import write_json, write_line
    from zerofleet.cluster.run_folder import RunFolder

    exported = export_run(RunFolder(storage, run).require(), output)
    if as_json:
        write_json(exported.record())
    else:
        write_line(f"{exported.folder}: {', '.join(exported.files)}")


@app.command()
def arena(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="A run or weights file, uct:600, random or solver; also RUN(simulations=600,symmetries=true).",
        ),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="The opponent, named in the same way.")],
    storage: Storage = DEFAULT_STORAGE,
    game: Annotated[str | None, typer.Option("--game", help="The game, where neither player is of one.")] = None,
    games: Annotated[int, typer.Option("--games", min=2, help="Number of games, even: colours are swapped.")] = 200,
    simulations: Annotated[int, typer.Option("--simulations", min=0, help="Simulations a move of networks.")] = 100,
    opening_plies: Annotated[int, typer.Option("--opening-plies", min=0, help="Random moves both begin with.")] = 2,
    max_plies: Annotated[int, typer.Option("--max-plies", min=0, help="A longer game is a draw; 0: no limit.")] = 0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of openings and rollouts.")] = 0,
    record: Annotated[Path | None, typer.Option("--record", help="Write the games there, as text.")] = None,
    as_json: AsJson = False,
) -> None:
    """Let two players meet in pairs of games, and print A's score with its interval."""
    from zerofleet.cluster.arena import match_record, run_arena
    from zerofleet.cluster.progress import write_json, write_line

    result = run_arena(
        (a, b),
        storage,
        game_spec=game,
        num_games=games,
        num_simulations=simulations,
        opening_plies=opening_plies,
        max_plies=max_plies,
        seed=seed,
        record=record,
    )
    if as_json:
        write_json(match_record(result))
    else:
        write_line(result.summary())


@app.command()
def analyse(
    game: Game,
    run: Annotated[
        str | None,
        typer.Option("--run", help="Whose weights search; without it, random rollouts.", autocompletion=_complete_run),
    ] = None,
    storage: Storage = DEFAULT_STORAGE,
    position: Annotated[str, typer.Option("--position", help="The moves that lead there, such as 4453.")] = "",
    simulations: Annotated[int, typer.Option("--simulations", min=1, help="Simulations.")] = 400,
    symmetries: Symmetries = False,
    rollouts: Rollouts = 0.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of random rollouts.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show what the search thinks of a position, move by move, and the tree behind it."""
    from zerofleet.actors.play_style import PlayStyle
    from zerofleet.cluster.analyse import analyse_position, analysis_record, print_analysis
    from zerofleet.cluster.progress import write_json
    from zerofleet.games import load_game
    from zerofleet.games.board import draw_board

    style = PlayStyle(symmetries=symmetries, rollouts=rollouts)
    found = analyse_position(game, run, storage, position=position, num_simulations=simulations, style=style, seed=seed)
    if as_json:
        write_json(analysis_record(found))
    else:
        print_analysis(found, draw_board(load_game(game), found.state))


@app.command()
def play(
    game: Game,
    run: Annotated[
        str | None,
        typer.Option("--run", help="Whose weights play; without it, random rollouts.", autocompletion=_complete_run),
    ] = None,
    storage: Storage = DEFAULT_STORAGE,
    simulations: Annotated[int, typer.Option("--simulations", min=1, help="Simulations a move.")] = 400,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0.001, help="Seconds a move, instead of simulations.")
    ] = None,
    clock: Annotated[
        float | None, typer.Option("--clock", min=0.001, help="Seconds for all its moves, instead of simulations.")
    ] = None,
    ponder: Annotated[bool, typer.Option("--ponder", help="It thinks on while you do.")] = False,
    symmetries: Symmetries = False,
    rollouts: Rollouts = 0.0,
    choice: Choice = "visits",
    second: Annotated[bool, typer.Option("--second", help="You move second.")] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of random rollouts.")] = 0,
) -> None:
    """Play against a run's player, in the terminal."""
    from zerofleet.actors.play_style import PlayStyle
    from zerofleet.cluster.play import ConsoleTerminal, Session, make_thinking

    if seconds is not None and clock is not None:
        raise UsageError("give one of --seconds and --clock")
    found, thinking = make_thinking(
        game,
        run,
        storage,
        simulations=simulations,
        seconds=seconds,
        clock_s=clock,
        ponders=ponder,
        style=PlayStyle(symmetries=symmetries, rollouts=rollouts, choice=choice),
        seed=seed,
    )
    Session(found, thinking, ConsoleTerminal(), person_plays=1 if second else 0).run()


@app.command()
def check_game(
    game: Game,
    games: Annotated[int, typer.Option("--games", min=1, help="Random games to check.")] = 100,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the random games.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Check a game against the laws of the protocol, in random games; the first broken one is told."""
    from zerofleet.cluster.check_game import check_game as check
    from zerofleet.cluster.check_game import describe_check
    from zerofleet.cluster.progress import write_json, write_line

    found = check(game, num_games=games, seed=seed)
    if as_json:
        write_json(found)
    else:
        for line in describe_check(found):
            write_line(line)


@app.command()
def doctor(storage: Storage = DEFAULT_STORAGE, redis_url: RedisUrl = None, as_json: AsJson = False) -> None:
    """Look at this machine: what a run needs, what would go wrong, and what to do about it."""
    from zerofleet.cluster.doctor import describe, examine, exit_code, findings_record
    from zerofleet.cluster.progress import write_json, write_line
    from zerofleet.cluster.status import redis_url_given

    findings = examine(storage, redis_url_given(redis_url))
    if as_json:
        write_json(findings_record(findings))
    else:
        for line in describe(findings):
            write_line(line)
    raise typer.Exit(exit_code(findings))


@app.command(context_settings={"ignore_unknown_options": True})  # -1 is a wrong depth, no option
def perft(
    game: Game,
    depth: Annotated[int, typer.Argument(metavar="DEPTH", min=0, help="Plies from the initial position.")],
) -> None:
    """Count the positions reached after DEPTH plies; the count is printed last."""
    from zerofleet.games import load_game
    from zerofleet.games.perft import perft as count

    typer.echo(str(count(load_game(game), depth)))


def main() -> None:
    """Run the command line and exit."""
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: list[str]) -> int:
    """Run one command and return its exit code; a user's mistake is told in a line or two."""
    try:
        code = app(arguments or ["--help"], prog_name="zerofleet", standalone_mode=False)
        return code if isinstance(code, int) else DONE
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else DONE
    except typer.Abort:
        return INTERRUPTED
    except TyperException as mistake:
        return _tell_mistake(mistake)
    except UsageError as error:
        typer.echo(f"error: {error}", err=True)
        return WRONG_USAGE
    except ZerofleetError as error:
        typer.echo(f"failed: {error}", err=True)
        return FAILED


def _tell_mistake(mistake: TyperException) -> int:
    """Tell what was wrong with the words of a command line, and where its help is."""
    context = getattr(mistake, "ctx", None)
    command = context.command_path if context is not None else "zerofleet"
    typer.echo(f"error: {mistake.format_message()}\nsee: {command} --help", err=True)
    return mistake.exit_code


def _view(run: str, storage: Path, redis_url: str | None) -> RunView:
    from zerofleet.cluster.run_folder import RunFolder
    from zerofleet.cluster.status import RunView, redis_url_of

    folder = RunFolder(storage, run).require()
    return RunView(folder, redis_url_of(folder, redis_url))
