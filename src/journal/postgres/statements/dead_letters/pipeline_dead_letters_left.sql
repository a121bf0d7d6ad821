-- The dead letters of execution @execution that no job replays: their number, counted up to @most, and the first of
-- them. None: no row.
with dead as materialized (
  select route, seq
  from umbra.pipeline_parked
  where execution = @execution::text::bigint and due_at is null and replayed_by is null
  order by route, seq
  limit @most::text::bigint
)
select (select count(*) from dead) as count, p.route, p.seq, p.error
from umbra.pipeline_parked as p
join (select route, seq from dead order by route, seq limit 1) as first on p.route = first.route and p.seq = first.seq
where p.execution = @execution::text::bigint
