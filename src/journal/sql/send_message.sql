-- A command for a partition owned elsewhere. $5 is made up once per message, so that a retry finds the first.
with sent as (
  insert into umbra.inbox (partition, job_id, command, sent_at, cause)
  values ($1::text::int, $2::text::uuid, $3::text::json, $4::text::bigint, $5::text)
  on conflict (cause) do nothing
  returning id
)
select id from sent
union all
select id from umbra.inbox where cause = $5::text
