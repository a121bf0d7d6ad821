-- Of a schedule ($1) that was changed: it holds the artifacts with the hashes $2, and no others.
with removed as (
  delete from umbra.held
  where by = $1::text::uuid and not left(held, 71) = any ($2::text::text[])
)
insert into umbra.held (held, by)
select h.hash || ' ' || s.owner, s.id
from umbra.schedules as s
cross join unnest($2::text::text[]) as h (hash)
where s.id = $1::text::uuid
on conflict do nothing
