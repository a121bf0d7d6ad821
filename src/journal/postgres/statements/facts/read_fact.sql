-- The data of one fact, for a template that needs a large output.
select data from umbra.journal where job_id = @job_id::text::uuid and seq = @seq::text::bigint
