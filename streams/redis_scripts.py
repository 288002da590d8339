"""The Lua scripts: every step that has to be one step.

Each script runs whole or not at all, between any two commands of others.  A write that only one process may make checks
that process's epoch first, in the same script.  Keys and fields are explained in `keys`.

Scripts on control data run even when the server's memory is full (`allow-oom`): they add next to nothing, and what
they remove is what makes room.  Only `PUBLISH` is refused then.  The flags need Redis 7 or any Valkey.
"""

from __future__ import annotations

_CONTROL = "#!lua flags=allow-oom\n"
_READS = "#!lua flags=no-writes\n"

# ----- shared pieces ----------------------------------------------------------------------------------------

_GUARD = """
local function refused(epochs, role, epoch)
  local held = redis.call('HGET', epochs, role)
  if not held then return redis.error_reply('NOEPOCH ' .. role) end
  if held ~= epoch then return redis.error_reply('STALE ' .. role .. ' ' .. epoch .. ' ' .. held) end
  return false
end
"""

_RAISE = """
local function raise(key, field, value)
  local held = redis.call('HGET', key, field)
  if not held or tonumber(held) < tonumber(value) then redis.call('HSET', key, field, value) end
end
"""

_NOW_MS = """
local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
"""

_SERVER_ID = """
local function server_id() return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') end
"""

_LEASED = """
local function leased(roles, leases)
  local now, expiries, found = now_ms(), {}, {}
  local flat = redis.call('HGETALL', leases)
  for i = 1, #flat, 2 do expiries[flat[i]] = tonumber(string.match(flat[i + 1], '^%d+')) end
  flat = redis.call('HGETALL', roles)
  for i = 1, #flat, 2 do
    found[#found + 1] = flat[i + 1]
    found[#found + 1] = (expiries[flat[i]] or now) - now
  end
  return found
end
"""

# ----- the episode stream -----------------------------------------------------------------------------------

# KEYS episodes.  ARGV max_backlog, payload.  Returns 1, or 0 when the backlog is at its bound.
PUBLISH = """#!lua
if redis.call('XLEN', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('XADD', KEYS[1], '*', 'e', ARGV[2])
return 1
"""

# KEYS episodes.  ARGV group, consumer, min idle ms, count.  Returns the entries claimed from other consumers.
# An entry that somebody deleted from outside is dropped from the pending list by XCLAIM and not returned, so the search
# goes on until something is.  Consumers that hold nothing are forgotten: each learner leaves one behind.
CLAIM = (
    _CONTROL
    + """
local key, group, me, idle, wanted = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local function others()
  local ids, from = {}, '-'
  while #ids < wanted do
    local page = redis.call('XPENDING', key, group, 'IDLE', idle, from, '+', 100)
    for _, pending in ipairs(page) do
      if pending[2] ~= me and #ids < wanted then ids[#ids + 1] = pending[1] end
    end
    if #page < 100 then break end
    from = '(' .. page[#page][1]
  end
  return ids
end
local entries, ids = {}, others()
while #ids > 0 and #entries == 0 do
  entries = redis.call('XCLAIM', key, group, me, idle, unpack(ids))
  if #entries == 0 then ids = others() end
end
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', key, group)) do
  local about = {}
  for i = 1, #consumer, 2 do about[consumer[i]] = consumer[i + 1] end
  if about.name ~= me and about.pending == 0 then redis.call('XGROUP', 'DELCONSUMER', key, group, about.name) end
end
return entries
"""
)

# KEYS episodes, epochs.  ARGV group, epoch, ids...  Returns how many were pending; only those are deleted.
ACK = (
    _CONTROL
    + _GUARD
    + """
local no = refused(KEYS[2], 'learner', ARGV[2])
if no then return no end
local acknowledged = 0
for i = 3, #ARGV do
  if redis.call('XACK', KEYS[1], ARGV[1], ARGV[i]) == 1 then
    redis.call('XDEL', KEYS[1], ARGV[i])
    acknowledged = acknowledged + 1
  end
end
return acknowledged
"""
)

# KEYS episodes, epochs, dead-letters, counters.  ARGV group, epoch, id, payload, reason, how many to keep.
DEAD_LETTER = (
    _CONTROL
    + _GUARD
    + """
local no = refused(KEYS[2], 'learner', ARGV[2])
if no then return no end
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[3]) == 0 then return 0 end
redis.call('XADD', KEYS[3], 'MAXLEN', '=', ARGV[6], '*', 'e', ARGV[4], 'entry', ARGV[3], 'reason', ARGV[5])
redis.call('HINCRBY', KEYS[4], 'dead_letters', 1)
redis.call('XDEL', KEYS[1], ARGV[3])
return 1
"""
)

# KEYS episodes, counters.  ARGV group.  Returns backlog, pending, dead letters.
# Everything in the stream is unread or pending, so the backlog is the length less the pending ones: no "lag", which
# servers estimate.  Pending entries that somebody trimmed from outside lie before the first entry and do not count.
COUNTS = """#!lua flags=no-writes
local length = redis.call('XLEN', KEYS[1])
local dead = tonumber(redis.call('HGET', KEYS[2], 'dead_letters') or '0')
if length == 0 then return {0, 0, dead} end
local summary = redis.pcall('XPENDING', KEYS[1], ARGV[1])
if summary.err or summary[1] == 0 then return {length, 0, dead} end
local first = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1][1]
local gone = redis.call('XPENDING', KEYS[1], ARGV[1], '-', '(' .. first, summary[1])
local pending = summary[1] - #gone
return {length - pending, pending, dead}
"""

# ----- the run store ----------------------------------------------------------------------------------------

# KEYS epochs, games, wish, weights.
# ARGV next, ceiling, wish actors or '', its sequence, weights version or '', its step, its sha256, (role, epoch)...
RESTORE = (
    _CONTROL
    + _RAISE
    + _SERVER_ID
    + """
redis.call('HSET', KEYS[2], 'server', server_id())
raise(KEYS[2], 'next', ARGV[1])
raise(KEYS[2], 'ceiling', ARGV[2])
if ARGV[3] ~= '' and tonumber(redis.call('HGET', KEYS[3], 'sequence') or '-1') < tonumber(ARGV[4]) then
  redis.call('HSET', KEYS[3], 'actors', ARGV[3], 'sequence', ARGV[4])
end
if ARGV[5] ~= '' and tonumber(redis.call('HGET', KEYS[4], 'version') or '-1') < tonumber(ARGV[5]) then
  redis.call('HSET', KEYS[4], 'version', ARGV[5], 'step', ARGV[6], 'sha256', ARGV[7])
end
for i = 8, #ARGV, 2 do raise(KEYS[1], ARGV[i], ARGV[i + 1]) end
return 1
"""
)

# KEYS epochs.  ARGV role, the epoch that was read or '', the new one.  Returns whether nobody was faster.
TAKE_EPOCH = (
    _CONTROL
    + """
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
"""
)

# KEYS games.  ARGV count, what to say when there are none.  Returns the first number taken.
# A server that was started anew may have come back with an older counter: it gives out nothing until `RESTORE` has run.
TAKE_GAMES = (
    _CONTROL
    + _SERVER_ID
    + """
local games = redis.call('HMGET', KEYS[1], 'next', 'ceiling', 'server')
local seen_to = games[1] and games[2] and games[3] == server_id()
if not seen_to or tonumber(games[1]) + tonumber(ARGV[1]) > tonumber(games[2]) then
  return redis.error_reply('NOCEILING ' .. ARGV[2])
end
redis.call('HINCRBY', KEYS[1], 'next', ARGV[1])
return tonumber(games[1])
"""
)

# KEYS epochs, games.  ARGV ceiling, epoch, what to say when there is no counter.
SET_CEILING = (
    _CONTROL
    + _GUARD
    + _RAISE
    + """
local no = refused(KEYS[1], 'controller', ARGV[2])
if no then return no end
if redis.call('HEXISTS', KEYS[2], 'next') == 0 then return redis.error_reply('NOCOUNTER ' .. ARGV[3]) end
raise(KEYS[2], 'ceiling', ARGV[1])
return 1
"""
)

# KEYS epochs, wish.  ARGV actors, epoch or ''.  Returns the wish's sequence number.
SET_WISH = (
    _CONTROL
    + _GUARD
    + """
if ARGV[2] ~= '' then
  local no = refused(KEYS[1], 'controller', ARGV[2])
  if no then return no end
end
redis.call('HSET', KEYS[2], 'actors', ARGV[1])
return redis.call('HINCRBY', KEYS[2], 'sequence', 1)
"""
)

# KEYS epochs, weights.  ARGV version, step, sha256, epoch.  Returns nothing, or what stands in the way.
PUBLISH_WEIGHTS = (
    _CONTROL
    + _GUARD
    + """
local no = refused(KEYS[1], 'learner', ARGV[4])
if no then return no end
local held = redis.call('HMGET', KEYS[2], 'version', 'step', 'sha256')
if held[1] and tonumber(held[1]) >= tonumber(ARGV[1]) then return held end
redis.call('HSET', KEYS[2], 'version', ARGV[1], 'step', ARGV[2], 'sha256', ARGV[3])
return {}
"""
)

# KEYS roles, leases.  ARGV slot, incarnation, record, lease ms, '1' to take the slot from anybody.
HEARTBEAT = (
    _CONTROL
    + _NOW_MS
    + """
local lease = redis.call('HGET', KEYS[2], ARGV[1])
if ARGV[5] ~= '1' and lease and string.match(lease, '^%d+:(.*)$') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('HSET', KEYS[2], ARGV[1], string.format('%.0f:%s', now_ms() + tonumber(ARGV[4]), ARGV[2]))
return 1
"""
)

# KEYS roles, leases.  ARGV slot, incarnation or ''.
UNREGISTER = (
    _CONTROL
    + """
local lease = redis.call('HGET', KEYS[2], ARGV[1])
if not lease or (ARGV[2] ~= '' and string.match(lease, '^%d+:(.*)$') ~= ARGV[2]) then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
return 1
"""
)

# KEYS roles, leases.  Returns (record, ms that are left of its lease)...
ROLES = _READS + _NOW_MS + _LEASED + "return leased(KEYS[1], KEYS[2])"

# KEYS roles, leases, epochs, games, wish, weights, commands.
# Returns roles (as ROLES does), server id, controller's epoch, [next, ceiling], [actors, sequence],
# [version, step, sha256], [paused, stop].
OVERVIEW = (
    _READS
    + _NOW_MS
    + _SERVER_ID
    + _LEASED
    + """
return {
  leased(KEYS[1], KEYS[2]),
  server_id(),
  redis.call('HGET', KEYS[3], 'controller'),
  redis.call('HMGET', KEYS[4], 'next', 'ceiling'),
  redis.call('HMGET', KEYS[5], 'actors', 'sequence'),
  redis.call('HMGET', KEYS[6], 'version', 'step', 'sha256'),
  redis.call('HMGET', KEYS[7], 'paused', 'stop')
}
"""
)

# KEYS epochs, state.  ARGV state, epoch or ''.
SET_STATE = (
    _CONTROL
    + _GUARD
    + """
if ARGV[2] ~= '' then
  local no = refused(KEYS[1], 'controller', ARGV[2])
  if no then return no end
end
redis.call('SET', KEYS[2], ARGV[1])
return 1
"""
)
