-- The requests that wrk sends. After `--` come: the workload, the prefix of the paths, the extension,
-- how many instances to spread over, a salt, a query for reads of whole instances, and a
-- message to anchor writes to.
--
-- The salt and a counter make every written value differ from all before it: writing the
-- same value again dirties no page and would be measured as a write.

local KEYS = 20
local MERGED = 10
local READING = {}
local WRITING = { ["content-type"] = "application/json" }

local prefix, instances, salt, query
local written = 0
local next_request

-- Requests that never change are made once, so that wrk itself stays cheap.
local function cycle(paths)
   local made = {}
   for index, path in ipairs(paths) do
      made[index] = wrk.format("GET", path, READING)
   end
   local count, read = #made, 0
   return function()
      read = read + 1
      return made[read % count + 1]
   end
end

local function instance_path(number)
   return string.format("%s/instances/i%d/data", prefix, number)
end

local function key_paths()
   local paths = {}
   for key = 1, KEYS do
      for instance = 1, instances do
         paths[#paths + 1] = string.format("%s/k%d", instance_path(instance), key)
      end
   end
   return paths
end

-- Neighbours go to different instances, as the writes of different people would.
local function spread()
   written = written + 1
   return written % instances + 1, math.floor(written / instances) % KEYS
end

local function write_one()
   local instance, key = spread()
   local body = string.format('{"key":"k%d","value":"%s-%d"}', key + 1, salt, written)
   return wrk.format("POST", instance_path(instance), WRITING, body)
end

local function merge_ten()
   local instance, first = spread()
   local pairs_of_body = {}
   for offset = 1, MERGED do
      local key = (first + offset) % KEYS + 1
      pairs_of_body[offset] = string.format('"k%d":"%s-%d-%d"', key, salt, written, offset)
   end
   local body = "{" .. table.concat(pairs_of_body, ",") .. "}"
   return wrk.format("PUT", instance_path(instance) .. "/merge", WRITING, body)
end

local function mix()
   local read = cycle(key_paths())
   local turn = 0
   return function()
      turn = turn + 1
      if turn % 5 == 0 then
         return write_one()
      end
      return read()
   end
end

local function instance_paths()
   local paths = {}
   for instance = 1, instances do
      paths[instance] = instance_path(instance) .. query
   end
   return paths
end

local WORKLOADS = {
   hello = function() return cycle({ "/" }) end,
   w1 = function() return cycle(key_paths()) end,
   w2 = function() return cycle(instance_paths()) end,
   w3 = function() return write_one end,
   w4 = function() return merge_ten end,
   w5 = function() return cycle({ prefix .. "/characters/c1" }) end,
   w6 = mix,
}

function init(args)
   prefix = args[2]
   READING["x-extension-id"] = args[3]
   WRITING["x-extension-id"] = args[3]
   instances = tonumber(args[4])
   salt = args[5]
   query = args[6] or ""
   if (args[7] or "") ~= "" then
      WRITING["x-message-id"] = args[7]
   end
   next_request = WORKLOADS[args[1]]()
end

function request()
   return next_request()
end

function done(summary, latency)
   local errors = summary.errors
   io.write(string.format(
      '{"requests":%d,"seconds":%.6f,"p50_ms":%.3f,"p99_ms":%.3f,"refused":%d,"socket_errors":%d}\n',
      summary.requests, summary.duration / 1e6,
      latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
      errors.status, errors.connect + errors.read + errors.write + errors.timeout
   ))
end
