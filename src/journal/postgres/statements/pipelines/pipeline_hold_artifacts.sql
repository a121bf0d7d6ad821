-- The job of an execution (@execution) holds the artifacts with the hashes @hashes, to which messages refer. Sent
-- before the commit with these messages: a job that holds more than it refers to does no harm, and other commits pay
-- nothing.
insert into umbra.held (held, by)
select h.hash || ' ' || j.owner, j.id
from umbra.executions as e
join umbra.jobs as j on j.id = e.job_id
cross join unnest(@hashes::text::text[]) as h (hash)
where e.id = @execution::text::bigint and not e.is_orphan
on conflict do nothing
