-- Does this connection still work?
select 1
