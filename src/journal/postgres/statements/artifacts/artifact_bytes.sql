-- The sum of all content of an owner (@owner).
select coalesce(sum(bytes), 0)::bigint as bytes from umbra.artifacts where owner = @owner::text and key is not null
