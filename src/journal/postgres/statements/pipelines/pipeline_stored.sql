-- The values that execution @execution has stored under these keys (@keys).
select key, value from umbra.pipeline_stored where execution = @execution::text::bigint and key = any (@keys::text::text[])
