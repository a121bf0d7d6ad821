-- The owners of all partitions.
select id, owner, epoch from umbra.partitions order by id
