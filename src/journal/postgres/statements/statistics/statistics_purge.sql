-- Removes at most @limit roll-ups of hours before @before.
with old as materialized (
  select ctid as place from umbra.node_stats where hour < @before::text::bigint limit @limit::text::bigint
),
removed as (
  delete from umbra.node_stats where ctid = any (array(select place from old)) returning 1
)
select count(*) from removed
