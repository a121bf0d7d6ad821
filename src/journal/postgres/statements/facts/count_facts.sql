-- How many facts a job has up to a seq: entries of the primary key, no rows. $1 job, $2 seq.
select count(*) as count from umbra.journal where job_id = $1::text::uuid and seq <= $2::text::bigint
