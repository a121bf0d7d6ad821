-- The time before which no request is to be sent to provider @provider.
select ceil(next_at)::bigint as until from umbra.provider_pace where provider = @provider::text
