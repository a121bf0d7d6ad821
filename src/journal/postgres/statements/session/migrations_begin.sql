-- Creates the schema and the table of applied migrations.
create schema if not exists umbra;
create table umbra.migrations (
  id int primary key,
  name text not null,
  checksum text not null,
  applied_at timestamptz not null default now()
);
