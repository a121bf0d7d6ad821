-- An outcome outside of an append: of a run that a user requested, or of a tick that does not start after all. It replaces
-- none but that of a queued tick.
insert into umbra.fires (schedule_id, tick, kind, at, outcome, job_id, reason, count)
values (
  $1::text::uuid, $2::text::bigint, $3::text, $4::text::bigint, $5::text, $6::text::uuid, $7::text, $8::text::int
)
on conflict (schedule_id, tick, kind) do update
set at = excluded.at, outcome = excluded.outcome, job_id = excluded.job_id, reason = excluded.reason
where fires.outcome = 'queued'
