-- Asks Tidegate whether a request may pass, for haproxy.cfg. Sets these variables of the transaction:
--   tidegate_status       200 if the request passes, 0 if Tidegate did not answer; all else refuses the request
--   tidegate_decision     the decision, if there is one
--   tidegate_retry_after, tidegate_ratelimit, tidegate_policy    headers of the answer

-- The frontend `tidegate` of haproxy.cfg, whose timeouts are shorter than this one.
local URL = "http://127.0.0.1:8001/v1/authorize"
local TIMEOUT_MS = 60000

-- Headers of the client that Tidegate must not see: the action sets them, or they are about the body, which is not sent.
local own = {
  ["content-length"] = true, ["transfer-encoding"] = true, ["connection"] = true, ["expect"] = true, ["upgrade"] = true,
  ["host"] = true, ["x-forwarded-for"] = true, ["x-forwarded-method"] = true, ["x-forwarded-host"] = true,
  ["x-forwarded-uri"] = true, ["forwarded"] = true,
}

-- Statuses of the frontend `tidegate` if Tidegate is away. Tidegate's own answers with these statuses have X-Tidegate-Status.
local away = { [502] = true, [503] = true, [504] = true }

-- Headers of the answer, and the variables that they are put into.
local wanted = {
  ["x-tidegate-decision"] = "txn.tidegate_decision",
  ["retry-after"] = "txn.tidegate_retry_after",
  ["ratelimit"] = "txn.tidegate_ratelimit",
  ["ratelimit-policy"] = "txn.tidegate_policy",
}

core.register_action("tidegate", { "http-req" }, function(txn)
  local headers = {}
  for name, values in pairs(txn.http:req_get_headers()) do
    if not own[name] then
      headers[name] = {}
      for index = 0, #values do
        table.insert(headers[name], values[index])
      end
    end
  end
  headers["x-forwarded-method"] = { txn.f:method() }
  headers["x-forwarded-host"] = { txn.f:req_fhdr("host") or "" }
  -- As the client wrote it. Tidegate resolves the spelling itself.
  headers["x-forwarded-uri"] = { txn.f:pathq() }
  headers["x-forwarded-for"] = { txn.f:src() }

  local answer = core.httpclient():get{ url = URL, headers = headers, timeout = TIMEOUT_MS }
  local answered = answer and answer.headers or {}
  local status = answer and answer.status or 0
  local real = answered["x-tidegate-status"]
  if real then
    status = tonumber(real[0])
  elseif away[status] then
    status = 0
  end
  txn:set_var("txn.tidegate_status", status)
  for name, variable in pairs(wanted) do
    if answered[name] then
      txn:set_var(variable, answered[name][0])
    end
  end
end, 0)
