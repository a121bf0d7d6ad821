-- Deletes a workflow (@owner, @name) at @at: its versions stay for the jobs that run on them. No row:
-- there was nothing to delete. It waits for an alias that is being created (put_alias.sql share-locks the
-- versions), and a later alias waits for it and then finds no version. delete_aliases.sql removes its
-- aliases, in the same commit.
update umbra.workflows
set deleted_at = @at::text::bigint
where owner = @owner::text and name = @name::text and deleted_at is null
returning version
