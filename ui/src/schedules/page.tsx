/** Schedules: all of them with their next tick and last outcomes, or one with its calendar and history. */

import type { Session } from "../api/session.ts"
import { usePlace } from "../shell/router.ts"
import { Shell } from "../shell/shell.tsx"
import { Main, useTitle } from "../shell/states.tsx"
import { ScheduleDetail } from "./detail.tsx"
import { NewSchedule } from "./form.tsx"
import { ScheduleList } from "./list.tsx"

export default function SchedulesPage({ name, session }: { name: string | null; session: Session }) {
  const { query } = usePlace()
  const isNew = name === null && query.get("new") !== null
  useTitle(`${name ?? (isNew ? "New schedule" : "Schedules")}`)
  return (
    <Shell session={session} page="schedules">
      <Main name="sched">
        {isNew ? (
          <NewSchedule />
        ) : name === null ? (
          <ScheduleList session={session} />
        ) : (
          <ScheduleDetail name={name} session={session} />
        )}
      </Main>
    </Shell>
  )
}
