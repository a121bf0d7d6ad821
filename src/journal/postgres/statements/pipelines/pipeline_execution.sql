-- The execution of job @job_id.
select id as execution, job_id, commit, progress, ended_at
from umbra.executions
where job_id = @job_id::text::uuid and not is_orphan
