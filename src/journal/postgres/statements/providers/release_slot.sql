-- Releases a slot that a node requested and no longer needs. Every other release is part of an append.
delete from umbra.slots where job_id = $1::text::uuid and node = $2::text::int and item = $3::text::int
