-- ARGV: edge, lease in milliseconds. Returns how many of its reservations are known here.
renew(ARGV[1], tonumber(ARGV[2]))
free_lapsed()
for _, record in ipairs(redis.call('HVALS', held_by(ARGV[1]))) do
  for kind, counter in string.gmatch(record, '(%S+) (%S+) %d+\n') do
    if kind == 'budget' then redis.call('PEXPIRE', key(counter), HOUR) end
  end
end
return redis.call('HLEN', held_by(ARGV[1]))
