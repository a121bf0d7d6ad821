-- The applied migrations, oldest first.
select id, name, checksum from umbra.migrations order by id
