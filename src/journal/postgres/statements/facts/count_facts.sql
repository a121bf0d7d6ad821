-- How many facts a job has up to a seq: entries of the primary key, no rows. @job_id job, @up_to seq.
select count(*) as count from umbra.journal where job_id = @job_id::text::uuid and seq <= @up_to::text::bigint
