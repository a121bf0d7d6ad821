-- Stores one batch of facts with everything that can follow from them, in one statement and one commit.
-- Batches that need less of it, which are the hot path, have shorter statements. Three consist of parts of
-- this one, and are generated from it (a section `only in` or `not in` names the statements with or without
-- it): append_jobs for a batch that touches no operation at a provider, as nearly all do (the parts for
-- operations cost 13 of 353 µs for a batch of one even when they are empty, 25 of 513 µs for ten),
-- append_rows for one that has no messages either, and append_facts for a batch that contains only facts, as a
-- completed node in the middle of a job does. append_fact.sql is for one fact. append_forks is this one with
-- what forks hold, append_schedules that one with ticks of schedules.
--
-- $1, $2     fences: partition ids and the epochs they are believed to have, as array literals
-- $3, $4     facts: "partition seq job_id at type" and, in parallel, the JSON data
-- $5, $6     new jobs and changed jobs, one record each
-- $7         entries of job_marks: mark, place, mark, place, … as an array literal
-- $8, $9     answers: message ids as an array literal, and the JSON answers
-- $10        messages caused by facts, one record each
-- $11, $12   operations at providers that began, and those that ended with the slots they release, one record
-- each
-- $13, $14   what new jobs hold, and definitions that are no version of a workflow, one record each
-- $15, $16   schedules whose ticks were decided, and the outcomes of these ticks, one record each
--
-- Records are joined by U+001E and their fields by U+001F, which JSON text never contains unescaped; an empty
-- field of a nullable column is null. An empty part is the empty string: it splits into no records and costs
-- microseconds. `offset 0` keeps the planner from merging the subquery, which would split a record again for
-- every column of it. Measured against driver arrays and json_to_recordset:
-- docs/decisions/0005-append-is-one-statement.md.
--
-- `for share` on the partition's row is the fence: a take-over waits for appends in flight, and an append
-- that waited for a take-over sees the new epoch and writes nothing. Rows are locked in partition order. A
-- partition that answers a withdrawn message counts as not held: the process that withdrew it was promised
-- that nothing happens. A batch that was stored before raises a duplicate key error, and nothing of it is
-- written. Then append_again is sent, which skips existing rows. Checking every time cost a tenth.
with fence as materialized (
  select p.id
  from unnest($1::text::int[], $2::text::bigint[]) as f (id, epoch)
  join umbra.partitions as p on p.id = f.id and p.epoch = f.epoch
  order by p.id
  for share of p
),
-- not in append_facts, append_rows
answered as materialized (
  select i.partition, i.withdrawn
  from unnest($8::text::bigint[]) as a (id)
  join umbra.inbox as i on i.id = a.id
  order by i.id
  for update of i
),
-- end
held as materialized (
  select coalesce(array_agg(id), '{}'::int[]) as ids
  from fence
  -- not in append_facts, append_rows
  where id not in (select partition from answered where withdrawn)
  -- end
),
facts as (
  insert into umbra.journal (job_id, seq, at, partition, bytes, type, data)
  select f.head[3]::uuid, f.head[2]::bigint, f.head[4]::bigint, f.head[1]::int, octet_length(f.data), f.head[5], f.data::json
  from (
    select string_to_array(u.head, chr(31)) as head, u.data
    from unnest(string_to_array($3::text, chr(30)), string_to_array($4::text, chr(30))) as u (head, data)
    offset 0
  ) as f
  where f.head[1]::int = any ((select ids from held)::int[])
  -- only in append_again
  on conflict do nothing
  -- end
  returning 1
),
-- not in append_facts
new_jobs as (
  insert into umbra.jobs (
    id, partition, seq, status, updated_at, finished_at, wake_at, output, error, fingerprint,
    stats, labels, owner, workflow, workflow_version, parent_id, priority, created_at, submitted_by, forked_from,
    definition
  )
  select
    j[1]::uuid, j[2]::int, j[3]::bigint, j[4], j[5]::bigint, nullif(j[6], '')::bigint, nullif(j[7], '')::bigint,
    nullif(j[8], '')::json, nullif(j[9], '')::json, nullif(j[10], ''), nullif(j[11], '')::json,
    nullif(j[12], '')::json, j[13], j[14], j[15]::int, nullif(j[16], '')::uuid, j[17]::int, j[18]::bigint,
    nullif(j[19], ''), nullif(j[20], '')::uuid, nullif(j[21], '')
  from records($5) as n (j)
  where j[2]::int = any ((select ids from held)::int[])
  -- only in append_again
  on conflict do nothing
  -- end
),
changed_jobs as (
  update umbra.jobs
  set
    seq = c.seq,
    status = c.j[4],
    updated_at = c.j[5]::bigint,
    finished_at = nullif(c.j[6], '')::bigint,
    wake_at = nullif(c.j[7], '')::bigint,
    output = nullif(c.j[8], '')::json,
    error = nullif(c.j[9], '')::json,
    fingerprint = nullif(c.j[10], ''),
    stats = coalesce(nullif(c.j[11], '')::json, jobs.stats),
    labels = nullif(c.j[12], '')::json
  from (
    select j, j[1]::uuid as id, j[2]::int as partition, j[3]::bigint as seq
    from records($6) as n (j)
  ) as c
  where jobs.id = c.id and jobs.seq < c.seq and c.partition = any ((select ids from held)::int[])
),
-- Entries may be too many, never too few: those of a partition that is not held do no harm.
marks as (
  insert into umbra.job_marks (mark, place)
  select m.list[i], m.list[i + 1]
  from (select $7::text::bigint[] as list, (select ids from held) as held) as m,
    generate_series(1, cardinality(m.list), 2) as i
  where m.held <> '{}'::int[]
  on conflict do nothing
),
-- end
-- not in append_facts, append_rows
answers as (
  update umbra.inbox
  set answer = a.answer::json
  from unnest($8::text::bigint[], string_to_array($9::text, chr(30))) as a (id, answer)
  where inbox.id = a.id
    and inbox.answer is null
    and inbox.partition = any ((select ids from held)::int[])
),
messages as (
  insert into umbra.inbox (partition, job_id, sent_at, cause, command)
  select m[2]::int, m[3]::uuid, m[4]::bigint, m[5], m[6]::json
  from records($10) as n (m)
  where m[1]::int = any ((select ids from held)::int[])
  on conflict (cause) do nothing
),
-- end
-- not in append_facts, append_rows, append_jobs
begun as (
  insert into umbra.operations (
    partition, provider, external_id, job_id, node, item, attempt, submitted_at, ended_at, cancel_at,
    slot_until, unseen, operation
  )
  select
    o[1]::int, o[2], o[3], o[4]::uuid, o[5]::int, o[6]::int, o[7]::int, o[8]::bigint,
    nullif(o[9], '')::bigint, nullif(o[10], '')::bigint, nullif(o[11], '')::bigint, o[12]::boolean, o[13]::int
  from records($11) as n (o)
  where o[1]::int = any ((select ids from held)::int[])
  on conflict (provider, external_id, job_id, node, item) do update
  set
    attempt = excluded.attempt, ended_at = excluded.ended_at, cancel_at = excluded.cancel_at,
    slot_until = excluded.slot_until
),
leaving as materialized (
  select
    o[2]::uuid as job_id, nullif(o[3], '')::int as node, o[4]::int as item, o[5]::bigint as at, o[6] as operation,
    nullif(o[7], '')::bigint as slot_until
  from records($12) as n (o)
  where o[1]::int = any ((select ids from held)::int[])
),
over as (
  update umbra.operations as o
  set ended_at = l.at, cancel_at = case when l.operation = 'cancel' then l.at end, slot_until = l.slot_until
  from leaving as l
  where o.job_id = l.job_id and o.node = l.node and o.item = l.item
    and o.ended_at is null and l.operation <> 'none' and not o.unseen
),
released as (
  delete from umbra.slots as s
  using leaving as l
  where s.job_id = l.job_id and (l.node is null or (s.node = l.node and s.item = l.item))
),
-- end
-- only in append_forks, append_schedules, append_again
holds as (
  insert into umbra.held (held, by)
  select h[3], h[2]::uuid
  from records($13) as n (h)
  where h[1]::int = any ((select ids from held)::int[])
  on conflict do nothing
),
-- An update, not nothing: it keeps tidy.sql from removing a definition that is just being used again.
definitions as (
  insert into umbra.definitions (hash, rules, used_at, definition)
  select distinct on (d[2]) d[2], d[3]::int, d[4]::bigint, d[5]::json
  from records($14) as n (d)
  where d[1]::int = any ((select ids from held)::int[])
  order by d[2], d[4]::bigint desc
  on conflict (hash) do update set used_at = greatest(definitions.used_at, excluded.used_at)
),
-- end
-- only in append_schedules, append_again
-- An edit since the decision (another revision) keeps its own next_at. last_tick only rises; an edit of the times may have
-- raised it above that of the decision, whose job is the latest one all the same.
schedules as (
  update umbra.schedules as s
  set
    last_tick = greatest(s.last_tick, c.last_tick),
    last_job = coalesce(nullif(c.r[5], '')::uuid, s.last_job),
    next_at = case when s.revision = c.r[3]::int then nullif(c.r[6], '')::bigint else s.next_at end,
    queued_tick = case
      when s.revision = c.r[3]::int or (c.r[7] <> '' and s.paused_at is null and s.last_tick <= c.last_tick)
        then nullif(c.r[7], '')::bigint
      when s.queued_tick = nullif(c.r[8], '')::bigint then null
      else s.queued_tick
    end
  from (
    select r, r[1]::int as partition, r[2]::uuid as id, r[4]::bigint as last_tick
    from records($15) as n (r)
  ) as c
  where
    s.id = c.id and (s.last_tick <= c.last_tick or s.revision <> c.r[3]::int)
    and c.partition = any ((select ids from held)::int[])
  returning s.id, s.paused_at, s.last_tick > c.last_tick as has_other_times
),
-- A tick that was queued and has started is the same row. A tick is not queued if the schedule was paused or got other
-- times since the decision: the row as it was updated tells, also if a pause was committed after this statement began.
fires as (
  insert into umbra.fires (schedule_id, tick, kind, at, outcome, job_id, reason, count)
  select
    f[2]::uuid, f[3]::bigint, f[4], f[5]::bigint,
    case when f[6] <> 'queued' or (not s.has_other_times and s.paused_at is null) then f[6] else 'skipped' end,
    nullif(f[7], '')::uuid,
    case when f[6] <> 'queued' or (not s.has_other_times and s.paused_at is null) then nullif(f[8], '')
      when s.paused_at is null then 'the schedule was changed' else 'the schedule was paused' end,
    f[9]::int
  from records($16) as n (f)
  left join schedules as s on s.id = f[2]::uuid
  where f[1]::int = any ((select ids from held)::int[])
  on conflict (schedule_id, tick, kind) do update
  set at = excluded.at, outcome = excluded.outcome, job_id = excluded.job_id, reason = excluded.reason
),
-- end
select array_to_string((select ids from held), ',') as held, (select count(*) from facts) as inserted
