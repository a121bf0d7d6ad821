-- What lists are filtered by, without an index entry per job (src/journal/marks.ts): jobs with ids of the bucket
-- `place` / 256 may have the value of `mark`. Entries may be too many, never too few.
create table umbra.job_marks (
  mark bigint not null,
  place bigint not null,
  primary key (mark, place)
);

create function umbra.mark(variadic parts text[]) returns bigint language sql stable as $$
  select ('x' || left(encode(sha256(convert_to(array_to_string(parts, chr(31)), 'UTF8')), 'hex'), 13))::bit(52)::bigint
$$;

-- The entries of a row, as journal/marks.ts writes them. Without those of its fingerprint and of the words of its error,
-- which rows of earlier releases do not have.
create function umbra.job_marks_of(j umbra.jobs) returns setof umbra.job_marks language sql stable as $$
  with job as (
    select
      replace(j.id::text, '-', '') as id,
      j.status in ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED', 'DELETED') as has_ended,
      (select count(*) from json_each_text(j.labels)) as labels
  ),
  marks (mark) as (
    select umbra.mark(j.owner, 'workflow', j.workflow)
    union all
    select umbra.mark(j.owner, 'version', j.workflow, j.workflow_version::text)
    union all
    select unnest(array[
      umbra.mark(j.owner, 'status', j.status),
      umbra.mark(j.owner, 'workflow', j.workflow, j.status),
      umbra.mark(j.owner, 'version', j.workflow, j.workflow_version::text, j.status)
    ])
    from job
    where has_ended
    union all
    select umbra.mark(j.owner, 'label', l.key, l.value)
    from job, json_each_text(j.labels) as l
    where labels <= 32
    union all
    select umbra.mark(j.owner, 'label', l.key, l.value, j.status)
    from job, json_each_text(j.labels) as l
    where labels <= 32 and has_ended
    union all
    select umbra.mark(j.owner, 'labels')
    from job
    where labels > 32
    union all
    select umbra.mark(j.owner, 'late', bits::text, (j.created_at >> bits)::text)
    from job, unnest(array[16, 22, 28, 34]) as bits
    where abs(j.created_at - ('x' || left(id, 12))::bit(48)::bigint) > 250
    union all
    select umbra.mark(j.owner, 'duration', length(ltrim((j.finished_at - j.created_at)::bit(48)::text, '0'))::text)
    from job
    where has_ended and j.finished_at - j.created_at >= 1024
    union all
    select umbra.mark(j.owner, 'code', j.error ->> 'code')
    where j.status <> 'COMPLETED' and j.error ->> 'code' is not null
  )
  select distinct marks.mark, ('x' || left(job.id, 11))::bit(44)::bigint * 256 + 64 + j.partition % 64
  from job, marks
$$;

-- Before anything is locked: this reads every job, and engines of the release before go on writing.
insert into umbra.job_marks
select m.mark, m.place
from umbra.jobs as j, umbra.job_marks_of(j) as m
on conflict do nothing;

-- `stats` is for figures of a job that has ended; nothing writes it yet.
alter table umbra.jobs
  add column fingerprint text,
  add column stats json;

-- A process of an earlier release, which may run until the upgrade is complete, writes no entries. The release after this
-- one drops the trigger and the functions.
create function umbra.mark_job() returns trigger language plpgsql as $$
begin
  insert into umbra.job_marks select mark, place from umbra.job_marks_of(new) on conflict do nothing;
  return null;
end
$$;

create trigger job_marks after insert or update on umbra.jobs
for each row when (current_setting('umbra.marks', true) is distinct from 'written')
execute function umbra.mark_job();

-- What they wrote while the first statement ran.
insert into umbra.job_marks
select m.mark, m.place
from umbra.jobs as j, umbra.job_marks_of(j) as m
where j.updated_at >= extract(epoch from now()) * 1000 - 60000
on conflict do nothing;
