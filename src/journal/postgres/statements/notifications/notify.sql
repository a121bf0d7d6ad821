-- Notifies the owners of these partitions (@partitions, separated by commas). Outside the append: NOTIFY takes a lock
-- that all committing transactions of the database would queue for.
select pg_notify('umbra', @partitions::text)
