-- The latest version of each workflow of an owner (@owner), by name, after @after: at most @limit. One step per name, not
-- per version: each looks up the next name in the primary key.
with recursive names as (
  (
    select w.name, 1 as live
    from umbra.workflows as w
    where w.owner = @owner::text and w.name > @after::text and w.deleted_at is null
    order by w.name
    limit 1
  )
  union all
  select n.name, names.live + 1
  from names
  cross join lateral (
    select w.name
    from umbra.workflows as w
    where w.owner = @owner::text and w.name > names.name and w.deleted_at is null
    order by w.name
    limit 1
  ) as n
  where names.live < @limit::text::bigint
)
select names.name, latest.version, latest.hash, latest.created_at, latest.pushed_by
from names
cross join lateral (
  select w.version, w.hash, w.created_at, w.pushed_by
  from umbra.workflows as w
  where w.owner = @owner::text and w.name = names.name and w.deleted_at is null
  order by w.version desc
  limit 1
) as latest
order by names.name
