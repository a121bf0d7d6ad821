-- Of execution $1.
select count(*) from umbra.pipeline_parked where execution = $1::text::bigint and due_at is null
