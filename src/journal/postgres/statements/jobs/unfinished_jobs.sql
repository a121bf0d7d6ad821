-- The jobs of an owner (@owner) that have not ended: among the known ones (@known), and among those with an id above
-- @after, which rises with time; at most @limit of each; of one submitter alone if @submitted_by is not null. Two
-- ranges of two indexes, so that jobs that ended long ago cost nothing.
select id
from umbra.jobs
where id = any (@known::text::uuid[])
  and owner = @owner::text
  and finished_at is null
  and (@submitted_by::text is null or submitted_by = @submitted_by::text)
union
(
  select id
  from umbra.jobs
  where owner = @owner::text
    and id > @after::text::uuid
    and finished_at is null
    and (@submitted_by::text is null or submitted_by = @submitted_by::text)
  order by id desc
  limit @limit::text::bigint
)
