-- Changes a schedule that still has the revision $2. Returns no row if it has another one.
update umbra.schedules
set
  revision = revision + 1,
  document = $3::text::json,
  updated_at = $4::text::bigint,
  paused_at = $5::text::bigint,
  last_tick = greatest(last_tick, $6::text::bigint),
  next_at = $7::text::bigint,
  queued_tick = case when $8::text::boolean then null else queued_tick end
where id = $1::text::uuid and revision = $2::text::int
returning 1
