-- The last fact committed in each partition (0: none), and the id of this store.
select
  p.id,
  coalesce((select f.seq from umbra.journal as f where f.partition = p.id order by f.seq desc limit 1), 0),
  (select s.id from umbra.store as s limit 1)
from umbra.partitions as p
order by p.id
