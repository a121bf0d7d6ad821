-- The time before which no request is to be sent to provider $1.
select ceil(next_at)::bigint as until from umbra.provider_pace where provider = $1::text
