-- Orders over the network, by Tarantool's own server and connector, as `delivery-net` asks for it.
--
--   tarantool net.lua server DIRECTORY MEMORY_BYTES ORDERS PAD
--       a space with the indexes of store.lua, filled with ORDERS of PAD bytes beside their fields;
--       prints the port that it listens at
--   tarantool net.lua client PORT ORDERS PAD WINDOW
--       for each line SECONDS on standard input calls the server with batches of 50 orders, WINDOW
--       calls under way, and prints how many orders were put
local clock = require('clock')
local BATCH = 50

local seq = 0
local function order(orders, pad)
    seq = seq + 1
    local rec = math.random(orders)
    return {rec, seq, rec, rec % 200 + 1, rec % 20000 + 1, rec % 500 + 1, 'A', rec % 2, 10025,
            seq % 1000, pad}
end

local function serve(dir, memory, orders, pad)
    box.cfg{
        listen = '127.0.0.1:0', wal_mode = 'none', memtx_memory = tonumber(memory), work_dir = dir,
        log = dir .. '/log', log_level = 3, checkpoint_interval = 0, readahead = 4194304,
        net_msg_max = 4096,
    }
    box.schema.user.grant('guest', 'super')
    local function by_key(field)
        return {field, 'unsigned', 2, 'unsigned', 3, 'unsigned'}
    end
    local space = box.schema.space.create('orders')
    space:create_index('pk', {type = 'tree', parts = {1, 'unsigned'}})
    space:create_index('place', {type = 'tree', parts = {2, 'unsigned', 3, 'unsigned'}})
    space:create_index('firm', {type = 'tree', parts = by_key(4)})
    space:create_index('account', {type = 'tree', parts = by_key(5)})
    space:create_index('instrument', {type = 'tree', parts = by_key(6)})
    local fill = string.rep('x', tonumber(pad))
    for rec = 1, tonumber(orders) do
        local made = order(tonumber(orders), fill)
        made[1], made[3] = rec, rec
        space:insert(made)
        -- The table of what is to be freed later never shrinks, and each collection walks it.
        if rec % 500 == 0 then collectgarbage() end
    end
    -- Newer than all that was there, whichever client it comes from.
    local head = seq
    function put(batch)
        box.begin()
        for i = 1, #batch do
            head = head + 1
            batch[i][2] = head
            space:replace(batch[i])
        end
        box.commit()
        return #batch
    end
    print(box.info.listen)
    io.flush()
end

local function call(port, orders, pad, window)
    local connection = require('net.box').connect('127.0.0.1:' .. port)
    assert(connection:ping(), 'the server answers')
    local fiber = require('fiber')
    local fill = string.rep('x', tonumber(pad))
    for line in io.lines() do
        local ends, count = clock.monotonic() + tonumber(line), 0
        local done = fiber.channel(tonumber(window))
        for _ = 1, tonumber(window) do
            fiber.create(function()
                while clock.monotonic() < ends do
                    local batch = {}
                    for i = 1, BATCH do batch[i] = order(tonumber(orders), fill) end
                    -- In two steps: the call lets other fibres count meanwhile.
                    local put = connection:call('put', {batch})
                    count = count + put
                end
                done:put(true)
            end)
        end
        for _ = 1, tonumber(window) do done:get() end
        print(string.format('%.0f', count))
        io.flush()
    end
    os.exit(0)
end

if arg[1] == 'server' then serve(arg[2], arg[3], arg[4], arg[5])
else call(arg[2], arg[3], arg[4], arg[5]) end
