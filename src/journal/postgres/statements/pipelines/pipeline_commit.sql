-- One commit of an execution: the results of its messages, in one statement. This is the hot path of
-- pipelines.
--
-- $1, $2     the fence: partition and epoch, as in append.sql
-- $3, $4, $5 execution, number of the commit, progress
-- $6 to $13  messages: route, seq, parent route, parent seq, root, hops, at, body
-- $14 to $18 lineage: route, seq, attempt, gathered into, steps
-- $19 to $24 parked: route, seq, attempts, due at, at, error
-- $25, $26   no longer parked: route, seq
-- $27, $28   stored: key, value
--
-- One array literal per column; texts joined by U+001E, which JSON never contains unescaped. Measured against
-- joined records and json_to_recordset: docs/decisions/0023-pipelines-on-the-journal.md.
--
-- `moved` decides: only the commit that follows the last one finds its row, and without it nothing is
-- written. A commit that was sent again meanwhile waits for the row and then does not find it. The returned
-- `commit` is the number from before this statement began. Unparked rows are found by ctid: `offset 0` makes
-- the planner look up each key by its index, whatever it assumes about the table's size, and only commits of
-- this execution, one after the other, write such rows.
with fence as materialized (
  select id from umbra.partitions where id = $1::text::int and epoch = $2::text::bigint for share
),
moved as materialized (
  update umbra.executions
  set commit = $4::text::bigint, progress = $5::text::json
  where id = $3::text::bigint and commit = $4::text::bigint - 1 and not is_orphan and exists (select from fence)
  returning id
),
messages as (
  insert into umbra.pipeline_messages (
    execution, route, seq, parent_route, parent_seq, root, hops, at, bytes, body
  )
  select moved.id, m.route, m.seq, m.parent_route, m.parent_seq, m.root, m.hops, m.at, octet_length(m.body), m.body::json
  from moved, unnest(
    $6::text::smallint[], $7::text::bigint[], $8::text::smallint[], $9::text::bigint[], $10::text::bigint[],
    $11::text::int[], $12::text::bigint[], string_to_array($13::text, chr(30))
  ) as m (route, seq, parent_route, parent_seq, root, hops, at, body)
),
lineage as (
  insert into umbra.pipeline_lineage (execution, route, seq, attempt, gathered_into, steps)
  select moved.id, l.route, l.seq, l.attempt, l.gathered_into, l.steps
  from moved, unnest(
    $14::text::smallint[], $15::text::bigint[], $16::text::int[], $17::text::bigint[],
    string_to_array($18::text, chr(30))
  ) as l (route, seq, attempt, gathered_into, steps)
),
parked as (
  insert into umbra.pipeline_parked (execution, route, seq, attempts, due_at, at, error)
  select moved.id, p.route, p.seq, p.attempts, p.due_at, p.at, p.error::json
  from moved, unnest(
    $19::text::smallint[], $20::text::bigint[], $21::text::int[], $22::text::bigint[], $23::text::bigint[],
    string_to_array($24::text, chr(30))
  ) as p (route, seq, attempts, due_at, at, error)
  on conflict (execution, route, seq) do update
  set attempts = excluded.attempts, due_at = excluded.due_at, at = excluded.at, error = excluded.error,
    replayed_by = null, replayed_at = null, replay_body = null
),
unparked as (
  delete from umbra.pipeline_parked
  where ctid = any (array(
    select found.place
    from moved
    cross join unnest($25::text::smallint[], $26::text::bigint[]) as u (route, seq)
    cross join lateral (
      select ctid as place
      from umbra.pipeline_parked
      where execution = moved.id and route = u.route and seq = u.seq
      offset 0
    ) as found
  ))
),
stored as (
  insert into umbra.pipeline_stored (execution, key, value)
  select moved.id, s.key, s.value::json
  from moved, unnest($27::text::text[], string_to_array($28::text, chr(30))) as s (key, value)
  on conflict (execution, key) do update set value = excluded.value
)
select
  exists (select from fence) as is_held,
  exists (select from moved) as is_moved,
  (select commit from umbra.executions where id = $3::text::bigint and not is_orphan) as last
