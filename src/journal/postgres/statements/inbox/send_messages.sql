-- Commands for partitions of other engines, one record of @messages each (see append.sql): partition, job, time,
-- cause, command. A cause is generated once per message, so that a retry finds the first sending. Fewer rows
-- than records: another sending of the same committed while this one waited for it; sent again, the statement
-- sees it.
with wanted as materialized (
  select m[1]::int as partition, m[2]::uuid as job_id, m[3]::bigint as sent_at, m[4] as cause, m[5]::json as command, place
  from (
    select string_to_array(u.record, chr(31)) as m, u.place
    from unnest(string_to_array(@messages::text, chr(30))) with ordinality as u (record, place)
    offset 0
  ) as n
),
sent as (
  insert into umbra.inbox (partition, job_id, sent_at, cause, command)
  select partition, job_id, sent_at, cause, command from wanted order by place
  on conflict (cause) do nothing
  returning cause, id
)
select cause, id from sent
union all
select i.cause, i.id from umbra.inbox as i join wanted using (cause)
