"""Self-play: many games at once, each move chosen by a search whose leaves somebody else evaluates; and matches.

This folder knows games, searches, the inference client's face and the episode stream.  It does not know torch, Ray,
Redis, or the learner: finished games leave it as records, and weights reach it as better answers.
"""
