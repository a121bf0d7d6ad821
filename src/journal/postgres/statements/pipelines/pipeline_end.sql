-- Records that the execution of job @job_id ended at @at: its place is free.
update umbra.executions set ended_at = @at::text::bigint where job_id = @job_id::text::uuid and ended_at is null
