-- The last heartbeats of all engines, including dead ones.
select id, place, beat, follows from umbra.engines
