-- Takes the next place in the outbound rate of provider $1: one request per $2 ms (more while the provider is
-- slowed down). $3 now, $4 the longest wait in ms. Returns when the request may be sent, and whether the
-- place was taken: one that is further away is not. `for update` reads the latest row, so places are granted
-- one after the other. No row: the provider was new; sent again, the statement finds it.
with known as (
  insert into umbra.provider_pace (provider) values ($1::text) on conflict do nothing
),
pace as materialized (
  select provider, greatest(next_at, $3::text::float8) as at, factor
  from umbra.provider_pace
  where provider = $1::text
  for update
),
taken as (
  update umbra.provider_pace as p
  set next_at = pace.at + $2::text::float8 / pace.factor, factor = least(1, pace.factor + 0.01)
  from pace
  where p.provider = pace.provider and pace.at - $3::text::float8 <= $4::text::float8
  returning 1
)
select ceil(at)::bigint as at, exists (select from taken) as taken from pace
