-- After a restore from a backup. An engine that wrote here between the backup and now may still use an epoch
-- that the backup has not seen: every partition gets an epoch that no engine can have (@epochs higher) and no
-- owner. The engines of that time are removed, and positions of live streams, which may be ahead of the
-- restored data, become those of another store.
with epochs as (
  update umbra.partitions set epoch = epoch + @epochs::text::bigint, owner = null
),
engines as (
  delete from umbra.engines
)
update umbra.store set id = gen_random_uuid()
