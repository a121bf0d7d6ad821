-- The outcome of a run that a user requested.
insert into umbra.fires (schedule_id, tick, kind, at, outcome, job_id, reason, count)
values (
  $1::text::uuid, $2::text::bigint, $3::text, $4::text::bigint, $5::text, $6::text::uuid, $7::text, $8::text::int
)
on conflict do nothing
