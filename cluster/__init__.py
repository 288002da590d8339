"""Composition: which roles a run has and where, their launch on Ray, the controller, and the command line.

Here, and only here, the parts meet: this folder knows Ray, starts Redis, and reads the run's config as a whole.  What a
role does is not its business; it starts roles, watches them, and restarts them.
"""
