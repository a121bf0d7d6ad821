-- Has this database ever been migrated? Checked first, because `create schema if not exists` needs the
-- permission to create even where there is nothing to create.
select to_regclass('umbra.migrations') is not null as is_there
