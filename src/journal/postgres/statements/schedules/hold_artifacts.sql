-- Of a schedule (@id) that was changed: it holds the artifacts with the hashes @hashes, and no others.
with removed as (
  delete from umbra.held
  where by = @id::text::uuid and not left(held, 71) = any (@hashes::text::text[])
)
insert into umbra.held (held, by)
select h.hash || ' ' || s.owner, s.id
from umbra.schedules as s
cross join unnest(@hashes::text::text[]) as h (hash)
where s.id = @id::text::uuid
on conflict do nothing
