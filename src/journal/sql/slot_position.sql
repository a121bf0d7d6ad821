-- Place of job $2, node $3, item $4 among those who wait for a slot of provider $1, from 1. No row: it does not wait.
select (
  select count(*) from umbra.slots as o
  where o.provider = $1::text and o.held_until is null and o.id <= s.id
)
from umbra.slots as s
where s.provider = $1::text and s.job_id = $2::text::uuid and s.node = $3::text::int and s.item = $4::text::int
  and s.held_until is null
