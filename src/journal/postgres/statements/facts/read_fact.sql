-- The data of one fact, for a template that needs a large output.
select data from umbra.journal where job_id = $1::text::uuid and seq = $2::text::bigint
