-- Revokes a token ($1) at $2; a token that is already revoked keeps its time. No row: it does not exist.
update umbra.tokens set revoked_at = coalesce(revoked_at, $2::text::bigint) where id = $1::text::uuid returning id
