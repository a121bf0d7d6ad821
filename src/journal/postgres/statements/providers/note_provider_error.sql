-- Records a failure of provider $1; only the last 20 are kept.
with old as (
  delete from umbra.provider_errors
  where provider = $1::text
    and id <= (select id from umbra.provider_errors where provider = $1::text order by id desc offset 19 limit 1)
)
insert into umbra.provider_errors (provider, at, what, code, message)
values ($1::text, $2::text::bigint, $3::text, $4::text, $5::text)
