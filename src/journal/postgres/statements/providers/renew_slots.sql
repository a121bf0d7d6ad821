-- Renews the leases of unfinished jobs in these partitions ($1) that have less than half of their time left
-- ($2 now, $3 lease).
update umbra.slots as s
set held_until = $2::text::bigint + $3::text::bigint
where s.partition = any ($1::text::int[])
  and s.held_until > $2::text::bigint
  and s.held_until < $2::text::bigint + $3::text::bigint / 2
  and exists (select from umbra.jobs as j where j.id = s.job_id and j.finished_at is null)
