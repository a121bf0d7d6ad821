-- The version that a grant of provider @provider's slots must find unchanged.
select version from umbra.providers where name = @provider::text
