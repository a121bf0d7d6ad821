-- Changes a schedule that still has the revision @revision. Returns no row if it has another one.
update umbra.schedules
set
  revision = revision + 1,
  document = @document::text::json,
  updated_at = @updated_at::text::bigint,
  paused_at = @paused_at::text::bigint,
  last_tick = greatest(last_tick, @last_tick::text::bigint),
  next_at = @next_at::text::bigint,
  queued_tick = case when @drops_queued::text::boolean then null else queued_tick end
where id = @id::text::uuid and revision = @revision::text::int
returning 1
