-- Marks these dead letters of execution @execution (routes @routes, seqs @seqs) as replayed by job @replayed_by, at
-- @at. Skips one that another job has, unless that job does not exist after @claim_ms ms. @edited_routes, @edited_seqs,
-- @bodies: routes, seqs and bodies of those that get another body, the bodies joined by U+001E. By ctid: each key is
-- looked up by its index, whatever the planner assumes about the table's size; a statement that waited for another
-- claim finds the letter taken.
with source as materialized (
  -- Held, so that retention does not remove it meanwhile.
  select id from umbra.executions where id = @execution::text::bigint and not is_orphan for key share
)
update umbra.pipeline_parked as p
set
  replayed_by = @replayed_by::text::uuid,
  replayed_at = @at::text::bigint,
  replay_body = (
    select e.body::json
    from unnest(
      @edited_routes::text::smallint[], @edited_seqs::text::bigint[], string_to_array(@bodies::text, chr(30))
    ) as e (route, seq, body)
    where e.route = p.route and e.seq = p.seq
    limit 1
  )
where p.ctid = any (array(
    select found.place
    from unnest(@routes::text::smallint[], @seqs::text::bigint[]) as k (route, seq)
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
      p.replayed_by <> @replayed_by::text::uuid
      and p.replayed_at <= @at::text::bigint - @claim_ms::text::bigint
      and not exists (select from umbra.jobs as j where j.id = p.replayed_by)
    )
  )
