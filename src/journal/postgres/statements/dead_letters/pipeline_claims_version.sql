-- Read before a claim counts: pipeline_claim.sql.
select version from umbra.execution_claims where id = 1
