-- Read before a claim counts: see pipeline_claim.sql.
select version from umbra.execution_claims where id = 1
