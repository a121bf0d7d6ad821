-- Renews the leases of unfinished jobs in these partitions (@partitions) that have less than half of their time left
-- (@at now, @lease_ms lease).
update umbra.slots as s
set held_until = @at::text::bigint + @lease_ms::text::bigint
where s.partition = any (@partitions::text::int[])
  and s.held_until > @at::text::bigint
  and s.held_until < @at::text::bigint + @lease_ms::text::bigint / 2
  and exists (select from umbra.jobs as j where j.id = s.job_id and j.finished_at is null)
