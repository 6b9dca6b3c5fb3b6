-- The requests that wrk sends. After `--` come: the dialect of the server, the workload, the
-- prefix of the paths, the extension, how many instances to spread over, the number of the run,
-- a query for reads of whole instances, and a message to anchor writes to.
--
-- Instances and keys are random over the whole data set. The number of the run and a counter
-- make every written value differ from all before it: writing the same value again dirties no
-- page and would be measured as a write.

local KEYS = 20
local MERGED = 10
local INSTANCES_OF_CHARACTER = 10
local VALUE_CHARACTERS = 98
-- How many writes of a run are read back after it.
local PROOFS = 8

local random = math.random
local head, prefix, instances, run, query, fillers
local asked, written, proved = 0, 0, 0
local next_request

-- Instance and key of the first writes. It is global, so that `done` can fetch it.
proofs = ""

-- wrk.format sorts and joins all headers each time, which would make wrk the slower side.
local function get(path)
   return "GET " .. path .. head .. "\r\n"
end

local function send(method, path, body)
   return method .. " " .. path .. head .. "content-type: application/json\r\ncontent-length: "
      .. #body .. "\r\n\r\n" .. body
end

-- Dialects: how each server is asked for the same.

local rest = {}

function rest.data(instance)
   return prefix .. "/instances/i" .. instance .. "/data"
end

function rest.read(instance, key)
   return get(rest.data(instance) .. "/k" .. key)
end

function rest.read20(instance)
   return get(rest.data(instance) .. query)
end

function rest.character(character)
   return get(prefix .. "/characters/c" .. character)
end

function rest.write(instance, key, value)
   return send("POST", rest.data(instance), '{"key":"k' .. key .. '","value":"' .. value .. '"}')
end

function rest.merge(instance, keys, values)
   local pairs_of_body = {}
   for index = 1, MERGED do
      pairs_of_body[index] = '"k' .. keys[index] .. '":"' .. values[index] .. '"'
   end
   return send("PUT", rest.data(instance) .. "/merge", "{" .. table.concat(pairs_of_body, ",") .. "}")
end

-- A command of Redis is a path, or the body of a POST. A value is JSON text, with its quotes.
local webdis = {}

function webdis.read(instance, key)
   return get("/HGET/i" .. instance .. "/k" .. key)
end

function webdis.read20(instance)
   return get("/HGETALL/i" .. instance)
end

-- The prefix is the command that runs the script which joins the instances of a character.
function webdis.character(character)
   return get(prefix .. "/c" .. character)
end

function webdis.write(instance, key, value)
   return send("POST", "/", "HSET/i" .. instance .. "/k" .. key .. "/%22" .. value .. "%22")
end

function webdis.merge(instance, keys, values)
   local parts = { "HSET/i" .. instance }
   for index = 1, MERGED do
      parts[index + 1] = "k" .. keys[index] .. "/%22" .. values[index] .. "%22"
   end
   return send("POST", "/", table.concat(parts, "/"))
end

local pocketbase = {}
local RECORDS = "/api/collections/data/records"
local LIST = RECORDS .. "?skipTotal=1&fields=instance,key,value"

function pocketbase.record(instance, key)
   return string.format("%s/i%06dk%07d", RECORDS, instance, key)
end

function pocketbase.read(instance, key)
   return get(pocketbase.record(instance, key))
end

function pocketbase.read20(instance)
   return get(LIST .. "&perPage=20&filter=instance%3D%22i" .. instance .. "%22")
end

function pocketbase.character(character)
   return get(LIST .. "&perPage=200&filter=character%3D%22c" .. character .. "%22")
end

function pocketbase.write(instance, key, value)
   return send("PATCH", pocketbase.record(instance, key), '{"value":"' .. value .. '"}')
end

function pocketbase.merge(instance, keys, values)
   local requests = {}
   for index = 1, MERGED do
      requests[index] = '{"method":"PATCH","url":"' .. pocketbase.record(instance, keys[index])
         .. '","body":{"value":"' .. values[index] .. '"}}'
   end
   return send("POST", "/api/batch", '{"requests":[' .. table.concat(requests, ",") .. "]}")
end

-- One request that never changes, whatever the workload.
local function hello()
   local only = get("/")
   return function() return only end
end

local DIALECTS = { rest = rest, webdis = webdis, pocketbase = pocketbase }

-- Workloads

local function next_value()
   written = written + 1
   local value = "r" .. run .. "-" .. written .. "-" .. fillers[written % #fillers + 1]
   return value:sub(1, VALUE_CHARACTERS)
end

-- The very first request is not sent: wrk only looks at it.
local function prove(instance, key)
   if asked > 1 and proved < PROOFS then
      proved = proved + 1
      proofs = proofs .. "i" .. instance .. " k" .. key .. " "
   end
end

local function write_one(dialect)
   local instance, key, value = random(instances), random(KEYS), next_value()
   prove(instance, key)
   return dialect.write(instance, key, value)
end

local function merge_ten(dialect)
   local instance, first = random(instances), random(KEYS)
   local keys, values = {}, {}
   for index = 1, MERGED do
      keys[index], values[index] = (first + index) % KEYS + 1, next_value()
      prove(instance, keys[index])
   end
   return dialect.merge(instance, keys, values)
end

local WORKLOADS = {
   read = function(dialect) return dialect.read(random(instances), random(KEYS)) end,
   read20 = function(dialect) return dialect.read20(random(instances)) end,
   character = function(dialect)
      return dialect.character(random(math.floor(instances / INSTANCES_OF_CHARACTER)))
   end,
   write = write_one,
   merge = merge_ten,
   mix = function(dialect)
      if asked % 5 == 0 then
         return write_one(dialect)
      end
      return dialect.read(random(instances), random(KEYS))
   end,
}

-- wrk

local all_threads = {}

function setup(thread)
   all_threads[#all_threads + 1] = thread
end

local function make_fillers()
   local words = { "amber", "bramble", "castle", "dusk", "ember", "falcon", "grove", "hollow",
      "ivory", "jade", "lantern", "meadow", "night", "orchard", "pearl", "quartz" }
   local made = {}
   for index = 1, 64 do
      local parts = {}
      for part = 1, 30 do
         parts[part] = words[random(#words)]
      end
      made[index] = table.concat(parts, "-")
   end
   return made
end

function init(args)
   prefix = args[3]
   instances = tonumber(args[5])
   run = args[6]
   query = args[7] or ""
   head = " HTTP/1.1\r\nhost: 127.0.0.1\r\n"
   if args[4] ~= "-" then
      head = head .. "x-extension-id: " .. args[4] .. "\r\n"
   end
   if (args[8] or "") ~= "" then
      head = head .. "x-message-id: " .. args[8] .. "\r\n"
   end
   math.randomseed(tonumber(run))
   fillers = make_fillers()
   if args[1] == "hello" then
      next_request = hello()
      return
   end
   local dialect, workload = DIALECTS[args[1]], WORKLOADS[args[2]]
   next_request = function() return workload(dialect) end
end

function request()
   asked = asked + 1
   return next_request()
end

function done(summary, latency)
   local errors = summary.errors
   io.write(string.format(
      '{"requests":%d,"seconds":%.6f,"bytes":%.0f,"p50_ms":%.3f,"p99_ms":%.3f,"refused":%d,'
         .. '"socket_errors":%d,"proofs":"%s"}\n',
      summary.requests, summary.duration / 1e6, summary.bytes,
      latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
      errors.status, errors.connect + errors.read + errors.write + errors.timeout,
      all_threads[1]:get("proofs")
   ))
end
