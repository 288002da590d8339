from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zerofleet.cluster.cli import run_command
from zerofleet.cluster.embedded_redis import EmbeddedRedis
from zerofleet.cluster.launch import wish_for
from zerofleet.streams.redis_store import RedisRunStore
from zerofleet.streams.store import WishRecord

if TYPE_CHECKING:
    from tests.cluster.conftest import World


def test_a_wish_at_the_start_counts_more_than_those_before(world: World) -> None:
    world.begin()
    wish_for(5, world.store, world.folder)
    world.controller.step()
    assert world.store.wish() == 5
    assert world.folder.wish() == WishRecord(5, 2)


def test_a_wish_at_the_start_counts_where_the_store_has_lost_its_data(world: World) -> None:
    world.begin()
    for actors in (3, 4):
        world.store.set_wish(actors)
        world.controller.step()
    world.store.lose_data()
    wish_for(1, world.store, world.folder)
    world.controller = world.make_controller()
    world.controller.take_over()
    assert world.store.wish() == 1


def test_a_fresh_run_does_not_take_the_keys_of_another_storages_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = EmbeddedRedis(tmp_path / "redis")
    url = server.ensure()
    try:
        RedisRunStore(url, "run").acquire_epoch("controller", 0, lambda _new: None)
        storage = tmp_path / "storage"
        arguments = ["train", "tictactoe", "--run", "run", "--storage", str(storage), "--redis-url", url]
        assert run_command(arguments) == 2
    finally:
        server.stop()
    assert "give its --storage, or another --run" in capsys.readouterr().err
    assert not storage.exists()
