-- Marks a migration as applied, in the transaction that applied it.
insert into umbra.migrations (id, name, checksum) values ($1::text::int, $2::text, $3::text)
