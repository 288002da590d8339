"""The network: a residual tower with a policy and a value head, its precision, and its weights files.

It knows shapes and tensors, and nothing of search, streams, training or processes.  `config` imports no torch.
"""
