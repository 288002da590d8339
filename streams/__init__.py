"""What crosses processes: records and their bytes, the episode stream, and everything else a run keeps in Redis.

It knows the rules of no game, no search and no network: an episode is a record of move ordinals, a payload is bytes.
`stream` and `store` hold the contracts with a version in memory of each; `redis_stream` and `redis_store` are the same
over Redis, and the only modules here that import it.
"""
