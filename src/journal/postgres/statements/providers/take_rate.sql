-- Takes the next place in the outbound rate of provider @provider: one request per @interval_ms ms (more while the
-- provider is slowed down). @at now, @max_wait_ms the longest wait in ms. Returns when the request may be sent, and
-- whether the place was taken: one that is further away is not. `for update` reads the latest row, so places are
-- granted one after the other. No row: the provider was new; sent again, the statement finds it.
with known as (
  insert into umbra.provider_pace (provider) values (@provider::text) on conflict do nothing
),
pace as materialized (
  select provider, greatest(next_at, @at::text::float8) as at, factor
  from umbra.provider_pace
  where provider = @provider::text
  for update
),
taken as (
  update umbra.provider_pace as p
  set next_at = pace.at + @interval_ms::text::float8 / pace.factor, factor = least(1, pace.factor + 0.01)
  from pace
  where p.provider = pace.provider and pace.at - @at::text::float8 <= @max_wait_ms::text::float8
  returning 1
)
select ceil(at)::bigint as at, exists (select from taken) as taken from pace
