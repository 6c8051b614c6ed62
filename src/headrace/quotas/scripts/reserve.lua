-- ARGV: edge, lease in milliseconds, id ("" to look only), "forced" or "", then kind, counter,
-- amount, size and rate of each draw. Returns the status, then used and held of each.
local edge, lease, id, forced = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4] == 'forced'
local status = 'granted'
local reply = {''}
local draws = {}

if id ~= '' then renew(edge, lease) end
free_lapsed()
local known = id == '' or redis.call('HEXISTS', held_by(edge), id) == 1
local void = id ~= '' and redis.call('DEL', account .. ':void:' .. id) == 1

for i = 5, #ARGV, 5 do
  local kind, counter, amount = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local size, rate = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  local used, held = level(kind, counter, rate)
  local unit = kind == 'rate' and MINUTE or 1
  if not used then
    status = 'unseeded'
  elseif status == 'granted' and amount > 0 and used + amount * unit > size * unit then
    status = 'refused'
  end
  draws[#draws + 1] = {kind, counter, amount, rate, used, held}
end
if known or forced then status = id == '' and status or 'granted' end
if void then status = 'void' end

local taken = status == 'granted' and not known
local record = ''
for _, draw in ipairs(draws) do
  local kind, counter, amount, rate, used, held = unpack(draw, 1, 6)
  if taken and amount > 0 then
    if kind == 'rate' then
      used = used + amount * MINUTE
      fill(counter, rate, used)
    else
      hold(kind, counter, whole(amount))
      record = record .. kind .. ' ' .. counter .. ' ' .. whole(amount) .. '\n'
      if used then used, held = used + amount, held + amount end
    end
  end
  reply[#reply + 1] = used or false
  reply[#reply + 1] = held or false
end
if taken then
  redis.call('HSET', held_by(edge), id, record)
  redis.call('PEXPIRE', held_by(edge), HOUR)
end
reply[1] = status
return reply
