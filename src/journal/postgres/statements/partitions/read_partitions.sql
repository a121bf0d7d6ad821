-- Who owns what.
select id, owner, epoch from umbra.partitions order by id
