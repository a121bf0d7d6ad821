-- The provider was asked to cancel ($6 null), so that the operation no longer holds a slot; or is asked again
-- at $6.
update umbra.operations
set
  cancel_at = $6::text::bigint, cancel_tries = cancel_tries + 1,
  slot_until = case when $6::text is not null then slot_until end
where provider = $1::text and external_id = $2::text
  and job_id = $3::text::uuid and node = $4::text::int and item = $5::text::int
