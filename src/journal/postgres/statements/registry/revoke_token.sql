-- Revokes a token ($1) at $2; one that is revoked keeps its time. No row: there is none.
update umbra.tokens set revoked_at = coalesce(revoked_at, $2::text::bigint) where id = $1::text::uuid returning id
