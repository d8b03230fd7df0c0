-- The order store's work, done by Tarantool: a space with a primary key, an index by place and three
-- secondary keys, as `delivery-store` asks for it line by line on standard input.
--
--   load ORDERS PAD           inserts that many orders, PAD bytes each beside their fields
--   update PATTERN COUNT HOW  changes COUNT orders, `rand` any or `hot` one of the last 2,000;
--                             HOW `table`: each is made of a Lua table, `tuple`: made beforehand
--   page WHICH COUNT LIMIT    pages of LIMIT rows from places all over, `all` or `firm`
--   poll COUNT                asks what is newer than the newest
--   memory                    bytes that its arena uses
--
-- Each answers with one line: seconds by the wall clock, seconds of the thread that holds the data,
-- and a count. Usage: tarantool store.lua DIRECTORY MEMORY_BYTES
local clock = require('clock')

box.cfg{
    wal_mode = 'none', memtx_memory = tonumber(arg[2]), work_dir = arg[1], log = arg[1] .. '/log',
    log_level = 3, checkpoint_interval = 0, readahead = 16320,
}

local BATCH, HOT = 50, 2000
local place = {2, 'unsigned', 3, 'unsigned'}
local function by_key(field)
    return {field, 'unsigned', 2, 'unsigned', 3, 'unsigned'}
end

local space = box.schema.space.create('orders')
space:create_index('pk', {type = 'tree', parts = {1, 'unsigned'}})
space:create_index('place', {type = 'tree', parts = place})
space:create_index('firm', {type = 'tree', parts = by_key(4)})
space:create_index('account', {type = 'tree', parts = by_key(5)})
space:create_index('instrument', {type = 'tree', parts = by_key(6)})

math.randomseed(42)
local orders, seq, pad = 0, 0, ''

-- The fields that an order of ours has, as far as they are looked at, and the rest as one string.
local function order(rec)
    seq = seq + 1
    return {rec, seq, rec, rec % 200 + 1, rec % 20000 + 1, rec % 500 + 1, 'A', rec % 2, 10025,
            seq % 1000, pad}
end

local function timed(count, step)
    collectgarbage()
    local wall, cpu = clock.monotonic(), clock.thread()
    local done = 0
    while done < count do
        box.begin()
        for _ = 1, math.min(BATCH, count - done) do
            step()
            done = done + 1
        end
        box.commit()
    end
    return clock.monotonic() - wall, clock.thread() - cpu
end

local function pick(pattern)
    if pattern == 'hot' then return orders - math.random(HOT) + 1 end
    return math.random(orders)
end

local work = {}

function work.load(count, bytes)
    pad = string.rep('x', tonumber(bytes))
    local wall, cpu = timed(tonumber(count), function()
        orders = orders + 1
        space:insert(order(orders))
    end)
    return wall, cpu, orders
end

function work.update(pattern, count, how)
    count = tonumber(count)
    if how == 'table' then
        local wall, cpu = timed(count, function() space:replace(order(pick(pattern))) end)
        return wall, cpu, count
    end
    local tuples, next_one = {}, 0
    for i = 1, count do tuples[i] = box.tuple.new(order(pick(pattern))) end
    local wall, cpu = timed(count, function()
        next_one = next_one + 1
        space:replace(tuples[next_one])
    end)
    return wall, cpu, count
end

function work.page(which, count, limit)
    local rows, options = 0, {iterator = 'GT', limit = tonumber(limit)}
    local index = which == 'all' and space.index.place or space.index.firm
    local wall, cpu = clock.monotonic(), clock.thread()
    for _ = 1, tonumber(count) do
        local after = seq - math.random(math.min(seq, orders)) + 1
        local key = which == 'all' and {after, 0} or {math.random(200), after, 0}
        rows = rows + #index:select(key, options)
    end
    return clock.monotonic() - wall, clock.thread() - cpu, rows
end

function work.poll(count)
    local rows, options = 0, {iterator = 'GT', limit = 50}
    local wall, cpu = clock.monotonic(), clock.thread()
    for _ = 1, tonumber(count) do
        rows = rows + #space.index.place:select({seq, 2 ^ 53}, options)
    end
    assert(rows == 0, 'nothing is newer than the newest')
    return clock.monotonic() - wall, clock.thread() - cpu, tonumber(count)
end

function work.memory()
    return 0, 0, box.slab.info().arena_used
end

for line in io.lines() do
    local words = {}
    for word in line:gmatch('%S+') do words[#words + 1] = word end
    local wall, cpu, count = work[words[1]](unpack(words, 2))
    print(string.format('%.9f %.9f %.0f', wall, cpu, count))
    io.flush()
end
os.exit(0)
