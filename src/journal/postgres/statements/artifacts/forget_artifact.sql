-- The content of a marked artifact ($1 owner, $2 hash, $3 key) was removed.
delete from umbra.artifacts
where owner = $1::text and hash = $2::text and key is not distinct from $3::text and marked_at is not null
