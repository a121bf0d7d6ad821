-- The execution of job $1.
select id as execution, job_id, commit, progress, ended_at
from umbra.executions
where job_id = $1::text::uuid and not is_orphan
