-- Admits a fencing token and, if asked to, writes a value in the same step.
--
-- KEYS[1] the mark, a hash of `issuer` and `token`    KEYS[2] the value, a string
-- ARGV[1] the issuer   ARGV[2] the token's digits
-- ARGV[3] what an equal token may do: `again`, or `once` where each token counts once
-- ARGV[4] (may be left out) the new value; without it only the mark rises
--
-- Returns {'admitted'}, {'stale', the mark's token} or {'foreign', the mark's issuer}. Any error has changed nothing.
local issuer, token, equal, value = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- Lua's numbers are doubles, which take 2^53 and 2^53 + 1 for one. Digits compare by length, then from the left.
local function below(a, b)
    if #a ~= #b then return #a < #b end
    for i = 1, #a do
        local x, y = a:byte(i), b:byte(i)
        if x ~= y then return x < y end
    end
    return false
end

-- Digits of a number from 1 to 2^63 - 1. A mark above would shut every holder out, for no token is higher.
local function is_token(text)
    return type(text) == 'string' and text:find('^[1-9]%d*$') ~= nil and not below('9223372036854775807', text)
end

local function wrong_type(key, wanted)
    local found = redis.call('TYPE', key).ok
    return redis.error_reply('FENCETYPE ' .. key .. ' is a ' .. found .. ' and should be a ' .. wanted)
end

if #KEYS ~= 2 or not issuer or issuer == '' or not is_token(token) or (equal ~= 'again' and equal ~= 'once') then
    return redis.error_reply('FENCEARGS two keys, an issuer, a token and `again` or `once` are wanted')
end
-- Everything is looked at before anything is written.
local held = redis.pcall('HMGET', KEYS[1], 'issuer', 'token')
if held.err then return held.err:find('WRONGTYPE', 1, true) and wrong_type(KEYS[1], 'hash') or held end
if value then
    local found = redis.call('TYPE', KEYS[2]).ok
    if found ~= 'none' and found ~= 'string' then return wrong_type(KEYS[2], 'string') end
end
local is_new = not held[1] and not held[2] and redis.call('EXISTS', KEYS[1]) == 0
if not is_new then
    if not held[1] or not is_token(held[2]) then
        return redis.error_reply('FENCEMARK ' .. KEYS[1] .. ' is no mark: it needs the fields issuer and token')
    end
    if held[1] ~= issuer then return {'foreign', held[1]} end
    if below(token, held[2]) or (equal == 'once' and token == held[2]) then return {'stale', held[2]} end
end
-- The mark comes first: a server that is out of memory refuses a script's first write, and none after that.
if is_new or token ~= held[2] then redis.call('HSET', KEYS[1], 'issuer', issuer, 'token', token) end
if value then redis.call('SET', KEYS[2], value, 'KEEPTTL') end
-- Somebody may have given the mark a time to live. One that expires lets old tokens in.
redis.call('PERSIST', KEYS[1])
return {'admitted'}
