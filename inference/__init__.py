"""Positions in, priors and values out: the network behind a socket, and in process.

The wire format, the batching policy, the server and the client know neither torch nor any rules: to them a position is
`packed_size` bytes and the actions of its legal moves.  Only `torch_backend` loads torch, and only servers load that.
Nothing here knows Ray or Redis: addresses and weights are handed in.
"""
