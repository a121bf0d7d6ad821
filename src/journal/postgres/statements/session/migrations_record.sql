-- Marks a migration as applied, in the transaction that applied it.
insert into umbra.migrations (id, name, checksum) values (@id::text::int, @name::text, @checksum::text)
