-- Revokes a token (@id) at @at; a token that is already revoked keeps its time. No row: it does not exist.
update umbra.tokens set revoked_at = coalesce(revoked_at, @at::text::bigint) where id = @id::text::uuid returning id
