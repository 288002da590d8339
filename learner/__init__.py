"""The learner: episodes in, weights out.

It knows the rules (to rebuild positions), the stream, the log on disk, the replay buffer and the network.  It knows
nothing of search, actors, inference servers or who started it.  `config` imports no torch.

How a game becomes a gradient, module by module: `targets` (an episode's rows), `log` (durable before acknowledged),
`feed` and `replay` (the rows that may be sampled), `rate` (how many must be logged before which step), `training` (step
k as a function of the log), `trainer` and `loss` (the step itself), `checkpoint` and `publisher` (what survives, and
what actors get), `learner` (the role that does it all in a loop).
"""
