-- Removes at most $2 roll-ups of hours before $1.
with old as materialized (
  select ctid as place from umbra.node_stats where hour < $1::text::bigint limit $2::text::bigint
),
removed as (
  delete from umbra.node_stats where ctid = any (array(select place from old)) returning 1
)
select count(*) from removed
