-- Records that the execution of job $1 ended at $2: its place is free.
update umbra.executions set ended_at = $2::text::bigint where job_id = $1::text::uuid and ended_at is null
