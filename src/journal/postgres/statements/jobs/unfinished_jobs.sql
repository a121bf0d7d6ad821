-- The jobs of an owner ($1) that have not ended: among the known ones ($2), and among those with an id above
-- $3, which rises with time; at most $4 of each; of one submitter alone if $5 is not null. Two ranges of two
-- indexes, so that jobs that ended long ago cost nothing.
select id
from umbra.jobs
where id = any ($2::text::uuid[])
  and owner = $1::text
  and finished_at is null
  and ($5::text is null or submitted_by = $5::text)
union
(
  select id
  from umbra.jobs
  where owner = $1::text
    and id > $3::text::uuid
    and finished_at is null
    and ($5::text is null or submitted_by = $5::text)
  order by id desc
  limit $4::text::bigint
)
