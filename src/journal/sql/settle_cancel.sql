-- The provider was told ($5 null), or is told again at $5.
update umbra.operations
set cancel_at = $5::text::bigint, cancel_tries = cancel_tries + 1
where provider = $1::text and external_id = $2::text and job_id = $3::text::uuid and node = $4::text::int
