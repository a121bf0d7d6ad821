-- Workflows that are paused, or whose jobs are being resumed, of all owners: few.
select owner, name, paused_at, paused_by, reason, resumed_at
from umbra.workflow_pauses
order by owner, name
