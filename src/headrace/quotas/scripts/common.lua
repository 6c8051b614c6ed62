-- What all scripts begin with. KEYS[1] is an account, "headrace:{tenant}"; all its keys begin so, and
-- what stands in braces puts them on one node of a cluster. A bucket is a string "used at"; slots
-- are a number; a budget is a hash of spent, seeded (its moment) and held. What an edge's
-- reservations hold of slots and budgets is a hash of their ids, which is freed when the edge's
-- lease lapses and taken again when it comes back. Numbers are exact up to 2^53.
local MINUTE, HOUR = 60000, 3600000
local account = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function key(counter) return account .. ':' .. counter end
local function held_by(edge) return account .. ':held:' .. edge end
local LEASES = account .. ':leases'

local function whole(number) return string.format('%.0f', number) end

local function drained(counter, rate)
  local value = redis.call('GET', key(counter))
  if not value then return 0 end
  local used, at = string.match(value, '(%d+) (%d+)')
  return math.max(0, used - math.max(0, now - at) * rate)
end

local function fill(counter, rate, used)
  if used <= 0 then
    redis.call('DEL', key(counter))
  else
    local lasts = whole(math.ceil(used / rate))
    redis.call('SET', key(counter), whole(used) .. ' ' .. whole(now), 'PX', lasts)
  end
end

-- Used and held, or nothing for a budget of which it is not known what was spent.
local function level(kind, counter, rate)
  if kind == 'rate' then return drained(counter, rate), 0 end
  if kind == 'slots' then
    local count = tonumber(redis.call('GET', key(counter)) or 0)
    return count, count
  end
  local purse = redis.call('HMGET', key(counter), 'spent', 'held')
  if not purse[1] then return nil end
  local held = tonumber(purse[2] or 0)
  return purse[1] + held, held
end

local function hold(kind, counter, amount)
  if kind == 'slots' then
    if redis.call('INCRBY', key(counter), amount) <= 0 then redis.call('DEL', key(counter)) end
  else
    if redis.call('HINCRBY', key(counter), 'held', amount) <= 0 then
      redis.call('HDEL', key(counter), 'held')
    end
    redis.call('PEXPIRE', key(counter), HOUR)
  end
end

-- A record of what is held is a line for each: kind, counter and amount.
local function hold_again(record)
  for kind, counter, amount in string.gmatch(record, '(%S+) (%S+) (%d+)\n') do
    hold(kind, counter, amount)
  end
end

local function release(record)
  for kind, counter, amount in string.gmatch(record, '(%S+) (%S+) (%d+)\n') do
    hold(kind, counter, '-' .. amount)
  end
end

-- A freed record begins with a bang.
local function free_lapsed()
  for _, edge in ipairs(redis.call('ZRANGEBYSCORE', LEASES, '-inf', now)) do
    local records = redis.call('HGETALL', held_by(edge))
    for i = 1, #records, 2 do
      if string.sub(records[i + 1], 1, 1) ~= '!' then
        release(records[i + 1])
        redis.call('HSET', held_by(edge), records[i], '!' .. records[i + 1])
      end
    end
    redis.call('ZREM', LEASES, edge)
  end
end

local function renew(edge, lease)
  if not redis.call('ZSCORE', LEASES, edge) then
    local records = redis.call('HGETALL', held_by(edge))
    for i = 1, #records, 2 do
      if string.sub(records[i + 1], 1, 1) == '!' then
        local record = string.sub(records[i + 1], 2)
        hold_again(record)
        redis.call('HSET', held_by(edge), records[i], record)
      end
    end
  end
  redis.call('ZADD', LEASES, now + lease, edge)
  redis.call('PEXPIRE', LEASES, HOUR)
  redis.call('PEXPIRE', held_by(edge), HOUR)
end
