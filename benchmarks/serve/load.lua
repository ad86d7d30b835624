-- wrk: bodies of a file, one on each line, in turn; names are new in every round, so that sequences begin and end.
local bodies, at, round = {}, 0, 0
local piece = os.getenv("KVEC_PIECE") or "0"  -- so that no piece of load sends what another has sent
local interval = tonumber(os.getenv("KVEC_INTERVAL") or "0")  -- seconds between two requests, over all connections
local due = 0  -- when the next one is, by the clock

local ffi = require("ffi")
ffi.cdef("typedef struct { long seconds, nanoseconds; } kvec_time; int clock_gettime(int clock, kvec_time *now);")
local time = ffi.new("kvec_time")

local function now()
  ffi.C.clock_gettime(1, time)
  return tonumber(time.seconds) + tonumber(time.nanoseconds) / 1e9
end

function init(args)
  for line in io.lines(os.getenv("KVEC_BODIES")) do bodies[#bodies + 1] = line end
end

function request()
  at = at + 1
  if at > #bodies then at, round = 1, round + 1 end
  local body = bodies[at]:gsub("@", piece .. "." .. round .. ".")
  return wrk.format("POST", "/v1/items", { ["Content-Type"] = "application/json" }, body)
end

function delay()
  if interval == 0 then return 0 end
  local at_present = now()
  if due == 0 then due = at_present end
  due = due + interval  -- what was answered late is made up for, so that the rate holds
  return math.max(math.floor((due - at_present) * 1e3 + 0.5), 0)
end

function done(summary, latency, requests)
  io.write("OVER\n")
  io.flush()
  local latencies = {}  -- microseconds, and how many took so long, with those that wrk adds for what a late answer kept waiting
  for i = 1, #latency do latencies[i] = string.format("[%d, %d]", latency(i)) end
  local errors = summary.errors
  io.write(string.format(
    "KVEC {\"requests\": %d, \"seconds\": %.3f, \"errors\": %d, \"not_200\": %d, \"latencies\": [%s]}\n",
    summary.requests, summary.duration / 1e6, errors.connect + errors.read + errors.write + errors.timeout,
    errors.status, table.concat(latencies, ", ")))
end
