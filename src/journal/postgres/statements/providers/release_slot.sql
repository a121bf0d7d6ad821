-- Releases a slot that a node requested and no longer needs. Every other release is part of an append.
delete from umbra.slots where job_id = @job_id::text::uuid and node = @node::text::int and item = @item::text::int
