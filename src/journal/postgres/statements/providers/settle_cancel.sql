-- The provider was asked to cancel (@again null), so that the operation no longer holds a slot; or is asked again
-- at @again.
update umbra.operations
set
  cancel_at = @again::text::bigint, cancel_tries = cancel_tries + 1,
  slot_until = case when @again::text is not null then slot_until end
where provider = @provider::text and external_id = @external_id::text
  and job_id = @job_id::text::uuid and node = @node::text::int and item = @item::text::int
