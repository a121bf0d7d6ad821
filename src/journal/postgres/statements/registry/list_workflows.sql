-- The latest version of each workflow of an owner ($1), by name, after $2: at most $3. One step per name, not
-- per version: each looks up the next name in the primary key.
with recursive names as (
  (
    select w.name, 1 as live
    from umbra.workflows as w
    where w.owner = $1::text and w.name > $2::text and w.deleted_at is null
    order by w.name
    limit 1
  )
  union all
  select n.name, names.live + 1
  from names
  cross join lateral (
    select w.name
    from umbra.workflows as w
    where w.owner = $1::text and w.name > names.name and w.deleted_at is null
    order by w.name
    limit 1
  ) as n
  where names.live < $3::text::bigint
)
select names.name, latest.version, latest.hash, latest.created_at, latest.pushed_by
from names
cross join lateral (
  select w.version, w.hash, w.created_at, w.pushed_by
  from umbra.workflows as w
  where w.owner = $1::text and w.name = names.name and w.deleted_at is null
  order by w.version desc
  limit 1
) as latest
order by names.name
