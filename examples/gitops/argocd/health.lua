-- The health of a NodeExtendedResource for Argo CD, which provides no other Lua library than table here.
local function found(kind)
  for _, condition in ipairs(obj.status.conditions or {}) do
    if condition.type == kind then
      return condition
    end
  end
  return {}
end

-- A rule that the controller has not observed yet has observedGeneration -1.
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "waiting for the controller" }
end

local ready = found("Ready")
local stalled = found("Stalled")
if stalled.status == "True" then
  return { status = "Degraded", message = stalled.message }
end
-- Patches in flight or retried, and values held by pods: no action is needed.
if found("Reconciling").status == "True" then
  return { status = "Progressing", message = ready.message }
end
if ready.status == "True" then
  return { status = "Healthy", message = ready.message }
end
-- Action is needed: another field manager has the value, the ledger is invalid or full, a permission is missing.
if ready.status == "False" then
  return { status = "Degraded", message = (ready.reason or "") .. ": " .. (ready.message or "") }
end
return { status = "Progressing", message = "waiting for the controller" }
