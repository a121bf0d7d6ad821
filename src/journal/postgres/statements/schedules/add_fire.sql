-- An outcome outside of an append: of a run that a user requested, or of a tick that does not start after all. It replaces
-- none but that of a queued tick.
insert into umbra.fires (schedule_id, tick, kind, at, outcome, job_id, reason, count)
values (
  @schedule_id::text::uuid, @tick::text::bigint, @kind::text, @at::text::bigint, @outcome::text,
  @job_id::text::uuid, @reason::text, @count::text::int
)
on conflict (schedule_id, tick, kind) do update
set at = excluded.at, outcome = excluded.outcome, job_id = excluded.job_id, reason = excluded.reason
where fires.outcome = 'queued'
