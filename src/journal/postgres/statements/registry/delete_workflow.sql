-- Deletes a workflow ($1 owner, $2 name) at $3: its versions stay for the jobs that run on them. No row:
-- there was nothing to delete. It waits for an alias that is being created (put_alias.sql share-locks the
-- versions), and a later alias waits for it and then finds no version. delete_aliases.sql removes its
-- aliases, in the same commit.
update umbra.workflows
set deleted_at = $3::text::bigint
where owner = $1::text and name = $2::text and deleted_at is null
returning version
