-- One process migrates at a time; the others wait here until it commits. Any fixed number will do.
select pg_advisory_xact_lock(7305087250712)
