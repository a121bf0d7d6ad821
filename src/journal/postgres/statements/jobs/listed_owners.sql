-- At most @limit owners that have jobs: one step in the index (owner, id) for each.
with recursive owners as (
  (select owner from umbra.jobs order by owner limit 1)
  union all
  select (select j.owner from umbra.jobs as j where j.owner > o.owner order by j.owner limit 1)
  from owners as o
  where o.owner is not null
)
select owner from owners where owner is not null limit @limit::text::bigint
