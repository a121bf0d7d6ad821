-- After a restore from a backup. Whoever wrote here between the backup and now may still believe in an epoch that the
-- backup has not seen: every partition gets one that nobody can have ($1 further on) and no owner. The engines of that
-- time are forgotten, and positions of live streams, which may lie behind what is here now, become those of another store.
with epochs as (
  update umbra.partitions set epoch = epoch + $1::text::bigint, owner = null
),
engines as (
  delete from umbra.engines
)
update umbra.store set id = gen_random_uuid()
