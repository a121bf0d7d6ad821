-- The last beats of all engines, also of those that died.
select id, place, beat, follows from umbra.engines
