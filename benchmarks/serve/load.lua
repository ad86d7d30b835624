-- wrk: bodies of a file, one on each line, in turn; names are new in every round, so that sequences begin and end.
local bodies, at, round, id = {}, 0, 0, 0
local counter = 0
local pause = tonumber(os.getenv("KVEC_PAUSE") or "0")

function setup(thread)
  counter = counter + 1
  thread:set("id", counter)
end

function init(args)
  for line in io.lines(os.getenv("KVEC_BODIES")) do bodies[#bodies + 1] = line end
  at = (id * 7) % #bodies
end

function request()
  at = at + 1
  if at > #bodies then at, round = 1, round + 1 end
  local body = bodies[at]:gsub("@", id .. "." .. round .. ".")
  return wrk.format("POST", "/v1/items", { ["Content-Type"] = "application/json" }, body)
end

function delay()
  return pause
end

function done(summary, latency, requests)
  io.write(string.format(
    "KVEC {\"requests\": %d, \"seconds\": %.3f, \"errors\": %d, \"not_200\": %d, \"p50_ms\": %.2f, \"p90_ms\": %.2f, "
      .. "\"p99_ms\": %.2f, \"max_ms\": %.2f}\n",
    summary.requests, summary.duration / 1e6,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout,
    summary.errors.status, latency:percentile(50) / 1e3, latency:percentile(90) / 1e3, latency:percentile(99) / 1e3,
    latency.max / 1e3))
end
