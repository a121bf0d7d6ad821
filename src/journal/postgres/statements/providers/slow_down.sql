-- Provider @provider reported overload: half the rate from now on, and no request before @until.
insert into umbra.provider_pace as p (provider, next_at, factor) values (@provider::text, @until::text::float8, 0.5)
on conflict (provider) do update
set next_at = greatest(p.next_at, excluded.next_at), factor = greatest(p.factor / 2, 1.0 / 64)
