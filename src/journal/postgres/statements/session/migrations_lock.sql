-- One process migrates at a time; the others wait here until it commits. The number is arbitrary but fixed.
select pg_advisory_xact_lock(7305087250712)
