-- The last fact committed in each partition (0: none), and the id of this store.
select
  (select s.id from umbra.store as s limit 1) as store,
  jsonb_agg(
    coalesce((select f.seq from umbra.journal as f where f.partition = p.id order by f.seq desc limit 1), 0) order by p.id
  ) as seqs
from umbra.partitions as p
