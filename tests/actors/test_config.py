import pytest

from zerofleet.actors.config import SelfPlayConfig, derive_games_per_actor
from zerofleet.errors import ConfigError
from zerofleet.search.base import SearchConfig


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("games_per_actor", -1),
        ("num_groups", 0),
        ("dirichlet_alpha", -0.1),
        ("dirichlet_alpha", float("nan")),
        ("dirichlet_fraction", 1.5),
        ("temperature", -1.0),
        ("temperature", float("inf")),
        ("temperature_plies", -1),
        ("final_temperature", float("nan")),
        ("random_opening_fraction", 1.1),
        ("random_opening_plies", -1),
        ("max_plies", -1),
        ("game_number_block", 0),
        ("max_unpublished_episodes", 0),
        ("drain_s", -1.0),
    ],
)
def test_an_impossible_value_is_refused_with_its_field_and_value(field: str, value: float) -> None:
    with pytest.raises(ConfigError, match=rf"self_play\.{field} must .*got {value!r}"):
        SelfPlayConfig(**{field: value})  # type: ignore[arg-type]


def test_openings_that_contradict_other_values_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"self_play\.random_opening_plies must be 0 or more, and 1 or more where"):
        SelfPlayConfig(random_opening_fraction=0.5)
    with pytest.raises(ConfigError, match=r"self_play\.random_opening_plies must be less than max_plies"):
        SelfPlayConfig(random_opening_fraction=0.5, random_opening_plies=20, max_plies=20)


def test_the_temperature_changes_after_its_plies() -> None:
    config = SelfPlayConfig(temperature=1.5, temperature_plies=3, final_temperature=0.25)
    assert [config.temperature_at(ply) for ply in range(5)] == [1.5, 1.5, 1.5, 0.25, 0.25]


def test_alpha_is_ten_over_the_number_of_legal_moves_unless_it_is_set() -> None:
    assert SelfPlayConfig().alpha_for(20) == 0.5
    assert SelfPlayConfig(dirichlet_alpha=0.3).alpha_for(20) == 0.3


@pytest.mark.parametrize(
    ("num_actors", "num_servers", "simulations", "leaves", "batch", "games"),
    [
        (1, 1, 100, 4, 64, 32),  # 2 groups of 16 trees with 4 leaves: 64 positions a batch
        (1, 1, 100, 4, 128, 64),
        (1, 1, 32, 4, 64, 64),  # 32 simulations allow 2 leaves at a time
        (1, 1, 0, 4, 64, 128),  # one leaf at a time
        (2, 1, 100, 4, 64, 16),  # two actors fill the batch together
        (8, 7, 800, 8, 64, 14),  # 7 * 64 / (8 * 8) = 7 trees a group
        (500, 1, 100, 4, 64, 2),  # never less than one game a group
    ],
)
def test_the_derived_games_fill_one_batch_per_server_and_group(
    num_actors: int, num_servers: int, simulations: int, leaves: int, batch: int, games: int
) -> None:
    search = SearchConfig(num_simulations=simulations, leaves_per_tree=leaves)
    derived = derive_games_per_actor(
        SelfPlayConfig(), search, num_actors=num_actors, num_servers=num_servers, batch_size=batch
    )
    assert derived == games


def test_a_number_of_games_that_is_set_is_taken() -> None:
    config = SelfPlayConfig(games_per_actor=5)
    assert derive_games_per_actor(config, SearchConfig(), num_actors=3, num_servers=2) == 5
