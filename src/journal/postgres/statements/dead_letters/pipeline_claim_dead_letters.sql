-- Marks these dead letters of execution $1 (routes $2, seqs $3) as replayed by job $4, at $5. Skips one that
-- another job has, unless that job does not exist after $6 ms. $7, $8, $9: routes, seqs and bodies of those that get
-- another body, the bodies joined by U+001E. By ctid: each key is looked up by its index,
-- whatever the planner assumes about the table's size; a statement that waited for another claim finds the
-- letter taken.
with source as materialized (
  -- Held, so that retention does not remove it meanwhile.
  select id from umbra.executions where id = $1::text::bigint and not is_orphan for key share
)
update umbra.pipeline_parked as p
set
  replayed_by = $4::text::uuid,
  replayed_at = $5::text::bigint,
  replay_body = (
    select e.body::json
    from unnest($7::text::smallint[], $8::text::bigint[], string_to_array($9::text, chr(30))) as e (route, seq, body)
    where e.route = p.route and e.seq = p.seq
    limit 1
  )
where p.ctid = any (array(
    select found.place
    from unnest($2::text::smallint[], $3::text::bigint[]) as k (route, seq)
    cross join lateral (
      select ctid as place
      from umbra.pipeline_parked
      where execution = (select id from source) and route = k.route and seq = k.seq and due_at is null
      offset 0
    ) as found
  ))
  and (
    p.replayed_by is null
    or (
      p.replayed_by <> $4::text::uuid
      and p.replayed_at <= $5::text::bigint - $6::text::bigint
      and not exists (select from umbra.jobs as j where j.id = p.replayed_by)
    )
  )
