-- KEYS[1]: who is there. ARGV: edge, lease in milliseconds, 0 to leave. Returns how many there are,
-- and 1 if this one was known before, else 0.
local known = redis.call('ZSCORE', account, ARGV[1]) and 1 or 0
if ARGV[2] == '0' then
  redis.call('ZREM', account, ARGV[1])
else
  redis.call('ZADD', account, now + ARGV[2], ARGV[1])
end
redis.call('ZREMRANGEBYSCORE', account, '-inf', now)
redis.call('PEXPIRE', account, HOUR)
return {redis.call('ZCARD', account), known}
