from __future__ import annotations

from zerofleet.cluster.topology import Node, actor_share, place, server_share, usable_cores


def test_two_cores_are_shared_by_two_servers_and_two_actors() -> None:
    node = Node(id="a", cpus=2, is_home=True)
    assert (server_share(node), actor_share(node)) == (2, 2)


def test_a_larger_node_leaves_a_core_to_the_learner_where_it_is() -> None:
    assert server_share(Node(id="a", cpus=8, is_home=True)) == 7
    assert server_share(Node(id="b", cpus=8)) == 8


def test_a_gpu_gets_one_server_and_the_cores_get_actors() -> None:
    node = Node(id="a", cpus=16, gpus=2, is_home=True)
    assert (server_share(node), actor_share(node)) == (2, 13)


def test_the_next_role_goes_to_the_node_furthest_below_its_share() -> None:
    nodes = [Node(id="a", cpus=2), Node(id="b", cpus=8)]
    taken: dict[str, int] = {}
    for _ in range(10):
        node = place("actor", nodes, taken)
        taken[node.id] = taken.get(node.id, 0) + 1
    assert taken == {"a": 2, "b": 8}


def test_the_learner_stays_at_home() -> None:
    nodes = [Node(id="a", cpus=64), Node(id="b", cpus=2, is_home=True)]
    assert place("learner", nodes, {}).id == "b"


def test_there_is_a_core_to_use() -> None:
    assert usable_cores() >= 1
