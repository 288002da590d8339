"""Monte Carlo tree search: PUCT over priors and values that any evaluator may give, and UCB1 with random rollouts.

Many trees are searched side by side (`pool`, in C++; `reference`, the same algorithm in plain Python).  A search knows
positions through `games` and their worth through an `Evaluator`; it knows no network, no process and no deadline.
"""
