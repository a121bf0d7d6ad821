-- Ticks that wait and will not start, since their schedule was paused or got other times. Sent after that, in the same
-- transaction: appends that queue a tick wait for the row of the schedule.
update umbra.fires as f
set
  outcome = 'skipped', at = s.updated_at,
  reason = case when s.paused_at is null then 'the schedule was changed' else 'the schedule was paused' end
from umbra.schedules as s
where
  s.id = @id::text::uuid and f.schedule_id = s.id and f.outcome = 'queued' and f.tick is distinct from s.queued_tick
  and (s.paused_at is not null or f.tick <= s.last_tick)
