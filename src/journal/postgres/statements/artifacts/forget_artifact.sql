-- The content of a marked artifact (@owner, @hash, @key) was removed.
delete from umbra.artifacts
where owner = @owner::text and hash = @hash::text and key is not distinct from @key::text and marked_at is not null
