-- What has been applied, oldest first.
select id, name, checksum from umbra.migrations order by id
