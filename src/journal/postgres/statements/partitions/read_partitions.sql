-- The owners of all partitions.
select id as partition, owner, epoch from umbra.partitions order by id
