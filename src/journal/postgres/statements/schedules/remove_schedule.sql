-- Removes a schedule with the outcomes of its ticks. Returns no row if there is none.
with removed as (
  delete from umbra.schedules where owner = @owner::text and name = @name::text returning id
),
held as (
  delete from umbra.held using removed where held.by = removed.id
),
outcomes as (
  delete from umbra.fires using removed where schedule_id = removed.id
)
select id from removed
