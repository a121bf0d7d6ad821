/** The log of a job, as pages or as a stream. */
import { LogStream } from "../../feed/log-stream.ts"
import { isoLogPage } from "../../jobs/iso-times.ts"
import { wrong } from "../list-queries.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import * as schema from "../schemas/job.ts"
import { logPage, logsQuery } from "../schemas/logs.ts"
import type { Streams } from "../streams.ts"
import { lastEventId, notAnId } from "./streams.ts"

const { read } = operations("jobs")

export function logRoutes(app: App, { umbra }: RouteContext, streams: Streams): void {
  const { logs } = umbra.queries
  app.get(
    "/jobs/:job/logs",
    {
      exposeHeadRoute: false,
      ...read({
        summary: "List the log lines of a job, or follow them",
        description:
          "Lines of handlers, with what the engine did with the node between them, by time. A page may end before it is full. `lost`: lines before this one are missing. With `follow`: Server-Sent Events, `line` with the id of the line, and `end`; `Last-Event-ID` resumes the stream.",
        params: schema.jobParams,
        headers: schema.resumeHeaders,
        querystring: logsQuery,
        response: schema.answers({ 200: logPage }, ["E301", "E310", "E611"]),
      }),
    },
    async (request, reply) => {
      const { job_id: jobId, owner } = request.job
      const { after, before, limit, follow, last_event_id, until, ...rest } = request.query
      const filter = { ...rest, until: until === undefined ? undefined : Date.parse(until) }
      if (filter.node === undefined && (filter.item !== undefined || filter.attempt !== undefined))
        throw wrong(filter.item === undefined ? "attempt" : "item", "needs the parameter node")
      if (before !== undefined && (after ?? follow) !== undefined)
        throw wrong("before", "cannot be combined with after or follow")
      if (before !== undefined && filter.source === "engine")
        throw wrong("before", "is for lines of handlers only")
      if (last_event_id !== undefined && follow === undefined)
        throw wrong("last_event_id", "needs the parameter follow")
      await logs.checkNode(jobId, filter.node)
      if (follow !== undefined) {
        const id = lastEventId(request)
        if (id !== undefined && !logsQuery.shape.after.safeParse(id).success) throw notAnId()
        const parts = { feed: umbra.feed, logs, filter, owner, jobId, after: id ?? after ?? null }
        return streams.start(request, reply, sink => new LogStream({ ...parts, sink })) as never
      }
      return isoLogPage(await logs.page(jobId, { ...filter, after, before, limit }))
    },
  )
}
