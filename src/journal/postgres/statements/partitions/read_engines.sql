-- The last heartbeats of all engines, including dead ones.
select id as engine, place, beat, follows from umbra.engines
