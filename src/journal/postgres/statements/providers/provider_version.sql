-- The version that a grant of provider $1's slots must find unchanged.
select version from umbra.providers where name = $1::text
