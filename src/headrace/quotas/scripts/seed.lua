-- ARGV: counter of a budget, what was spent of it.
if redis.call('HSETNX', key(ARGV[1]), 'spent', ARGV[2]) == 1 then
  redis.call('HSET', key(ARGV[1]), 'seeded', whole(now))
end
redis.call('PEXPIRE', key(ARGV[1]), HOUR)
