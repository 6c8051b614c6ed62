-- ARGV: edge, id, manner, moment in unix milliseconds, then kind, counter, rate, drawn and used of
-- each draw. Manner: "first" time this is sent; "again", when it may have been done before; "void"
-- if it is not known whether it was reserved, and if not it must not be any more.
local edge, id, manner, moment = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local record = redis.call('HGET', held_by(edge), id)
if record then
  redis.call('HDEL', held_by(edge), id)
  if string.sub(record, 1, 1) ~= '!' then release(record) end
elseif manner == 'void' then
  redis.call('SET', account .. ':void:' .. id, '1', 'PX', MINUTE)
  return
elseif manner == 'again' then
  return
end
for i = 5, #ARGV, 5 do
  local kind, counter, rate = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local drawn, used = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  if kind == 'rate' then
    if record then fill(counter, rate, drained(counter, rate) + (used - drawn) * MINUTE) end
  elseif kind == 'budget' then
    -- What these counters never knew of is in the books, and so in what they were seeded with
    -- if they were seeded after it.
    local seeded = redis.call('HGET', key(counter), 'seeded')
    if seeded and (record or moment > tonumber(seeded)) then
      redis.call('HINCRBY', key(counter), 'spent', whole(used))
    end
  end
end
