-- The sum of all content of an owner ($1).
select coalesce(sum(bytes), 0)::bigint as bytes from umbra.artifacts where owner = $1::text and key is not null
