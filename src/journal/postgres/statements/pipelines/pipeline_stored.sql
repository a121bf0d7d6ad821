-- The values that execution $1 has stored under these keys ($2).
select key, value from umbra.pipeline_stored where execution = $1::text::bigint and key = any ($2::text::text[])
