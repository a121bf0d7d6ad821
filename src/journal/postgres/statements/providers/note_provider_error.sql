-- Records a failure of provider @provider; only the last 20 are kept.
with old as (
  delete from umbra.provider_errors
  where provider = @provider::text
    and id <= (select id from umbra.provider_errors where provider = @provider::text order by id desc offset 19 limit 1)
)
insert into umbra.provider_errors (provider, at, what, code, message)
values (@provider::text, @at::text::bigint, @what::text, @code::text, @message::text)
