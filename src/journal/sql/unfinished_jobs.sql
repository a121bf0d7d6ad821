-- Which of an owner's ($1) jobs have not ended: of those that are known ($2), and of those with an id above $3, which
-- rises with time; at most $4 of each. Two stretches of two indexes, so that the jobs that ended long ago cost nothing.
select id from umbra.jobs where id = any ($2::text::uuid[]) and owner = $1::text and finished_at is null
union
(
  select id
  from umbra.jobs
  where owner = $1::text and id > $3::text::uuid and finished_at is null
  order by id desc
  limit $4::text::bigint
)
